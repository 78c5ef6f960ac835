//! Minisign keys and signatures: making and verifying them.
//!
//! A key is trusted because its file is in a folder that only its owner can write. A signature is the file
//! `COMPONENT.minisig` beside the component, as `minisign -S` writes it.

use std::fs;
use std::io::{Cursor, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use minisign_verify::{PublicKey, Signature};

/// Most keys of one folder.
pub const KEYS_MAX: usize = 256;
/// Largest key or signature file, bytes.
pub const TEXT_BYTES_MAX: u64 = 4096;
/// Ending of a public key's file.
const KEY_SUFFIX: &str = "pub";

/// Why a key or a signature is not accepted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// A file that cannot be read, or written.
    #[error("{path}: {error}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: std::io::Error,
    },
    /// A folder or a file that others can write, or a folder with too many keys.
    #[error("{path}: {problem}", path = path.display())]
    NotOurs {
        /// The folder or file.
        path: PathBuf,
        /// The problem, and what is accepted.
        problem: String,
    },
    /// Not a minisign public key, secret key or signature.
    #[error("{path}: not a minisign {what}: {problem}", path = path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The expected kind.
        what: &'static str,
        /// The fault.
        problem: String,
    },
    /// Signed with a key that is not trusted.
    #[error("signed with key {id}, which is not trusted; trusted are {trusted}")]
    Unknown {
        /// Number of the signature's key, 16 hexadecimal digits.
        id: String,
        /// Numbers and names of the trusted keys, or `none`.
        trusted: String,
    },
    /// The component differs from the signed one.
    #[error(
        "the signature of key {id} is not of this component: it was changed after it was signed, or the signature is another's"
    )]
    Wrong {
        /// Number of the key that the signature names, 16 hexadecimal digits.
        id: String,
    },
}

/// A key that is trusted.
#[derive(Clone)]
pub struct Key {
    /// The name of its file, without ending.
    pub name: String,
    /// Its number, 16 hexadecimal digits as in minisign's output.
    pub id: String,
    key: PublicKey,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key({} {})", self.name, self.id)
    }
}

/// A signature that was verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    /// Name of the trusted key: that of its file, without ending.
    pub key: String,
    /// Number of the key, 16 hexadecimal digits.
    pub id: String,
    /// The trusted comment, which the signature covers.
    pub comment: String,
}

/// The keys that are trusted; none by default.
#[derive(Debug, Clone, Default)]
pub struct Keys {
    keys: Vec<Key>,
}

/// The path of the signature of a component: `.minisig` behind the component's own.
pub fn signature_path(component: &Path) -> PathBuf {
    let mut name = component.as_os_str().to_owned();
    name.push(".minisig");
    name.into()
}

/// A short text file.
fn text(path: &Path) -> Result<String, KeyError> {
    let failed = |error| KeyError::File { path: path.to_owned(), error };
    let mut text = String::new();
    let file = fs::File::open(path).map_err(failed)?;
    file.take(TEXT_BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > TEXT_BYTES_MAX {
        let problem = format!("is larger than {TEXT_BYTES_MAX} bytes");
        return Err(KeyError::Malformed { path: path.to_owned(), what: "file", problem });
    }
    Ok(text)
}

/// The number of the key in the second line of a public key or a signature.
fn number(text: &str) -> Option<String> {
    let bytes = STANDARD.decode(text.lines().nth(1)?.trim()).ok()?;
    let number: [u8; 8] = bytes.get(2..10)?.try_into().ok()?;
    Some(format!("{:016X}", u64::from_le_bytes(number)))
}

/// Checks that only this user or root can write there.
fn ours(path: &Path) -> Result<(), KeyError> {
    let meta = fs::metadata(path).map_err(|error| KeyError::File { path: path.to_owned(), error })?;
    let (me, owner, mode) = (nix::unistd::geteuid().as_raw(), meta.uid(), meta.mode() & 0o7777);
    let refuse = |problem| Err(KeyError::NotOurs { path: path.to_owned(), problem });
    if owner != me && owner != 0 {
        return refuse(format!("belongs to user {owner}; accepted is user {me} or root"));
    }
    if mode & 0o022 != 0 {
        return refuse(format!(
            "has mode {mode:04o}; accepted is one that only its owner may write (chmod go-w)"
        ));
    }
    Ok(())
}

impl Keys {
    /// All keys (`*.pub`) of a folder, which may have none.
    ///
    /// # Errors
    /// [`KeyError`] for a folder or key that cannot be read or that others can write, an invalid key, or more than [`KEYS_MAX`].
    pub fn open(folder: &Path) -> Result<Keys, KeyError> {
        let failed = |error| KeyError::File { path: folder.to_owned(), error };
        let mut paths = Vec::new();
        for entry in fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|suffix| suffix == KEY_SUFFIX) {
                paths.push(path);
            }
        }
        ours(folder)?;
        if paths.len() > KEYS_MAX {
            let problem = format!("has {} keys; at most {KEYS_MAX} are accepted", paths.len());
            return Err(KeyError::NotOurs { path: folder.to_owned(), problem });
        }
        paths.sort();
        let keys = paths.iter().map(|path| ours(path).and_then(|()| key(path))).collect::<Result<_, _>>()?;
        Ok(Keys { keys })
    }

    /// One key from its file. Owner and mode of the file are not checked: the caller has chosen to trust it.
    ///
    /// # Errors
    /// [`KeyError`] if the file cannot be read or is no public key.
    pub fn one(path: &Path) -> Result<Keys, KeyError> {
        Ok(Keys { keys: vec![key(path)?] })
    }

    /// The keys, in the order of the names of their files.
    pub fn iter(&self) -> impl Iterator<Item = &Key> {
        self.keys.iter()
    }

    /// The key that signed the component; `signature` is the path of the signature.
    ///
    /// # Errors
    /// [`KeyError`] if the signature is missing or invalid, of an unknown key, or of other bytes.
    pub fn verify(&self, component: &[u8], signature: &Path) -> Result<Signed, KeyError> {
        self.verify_text(component, &text(signature)?, signature)
    }

    /// The key that signed the component with the signature `text`, which came from `named`.
    ///
    /// # Errors
    /// [`KeyError`] if the signature is invalid, of an unknown key, or of other bytes.
    pub fn verify_text(&self, component: &[u8], text: &str, named: &Path) -> Result<Signed, KeyError> {
        let (id, signed) = decode(text, named)?;
        let Some(key) = self.keys.iter().find(|key| key.id == id) else {
            let trusted: Vec<String> =
                self.keys.iter().map(|key| format!("{} ({})", key.id, key.name)).collect();
            let trusted = if trusted.is_empty() { "none".to_owned() } else { trusted.join(", ") };
            return Err(KeyError::Unknown { id, trusted });
        };
        if key.key.verify(component, &signed, false).is_err() {
            return Err(KeyError::Wrong { id });
        }
        Ok(Signed { key: key.name.clone(), id, comment: signed.trusted_comment().to_owned() })
    }
}

/// The number of the key that made the signature `text`, which came from `named`. The signature is not verified.
///
/// # Errors
/// [`KeyError::Malformed`] if it is no minisign signature.
pub fn signer(text: &str, named: &Path) -> Result<String, KeyError> {
    Ok(decode(text, named)?.0)
}

/// A signature and the number of its key.
fn decode(text: &str, named: &Path) -> Result<(String, Signature), KeyError> {
    let malformed = |problem: &str| KeyError::Malformed {
        path: named.to_owned(),
        what: "signature",
        problem: problem.to_owned(),
    };
    let id = number(text).ok_or_else(|| malformed("its second line names no key"))?;
    let signed = Signature::decode(text).map_err(|error| malformed(&error.to_string()))?;
    Ok((id, signed))
}

fn key(path: &Path) -> Result<Key, KeyError> {
    let malformed =
        |problem: String| KeyError::Malformed { path: path.to_owned(), what: "public key", problem };
    let text = text(path)?;
    let id = number(&text).ok_or_else(|| malformed("its second line is no key".to_owned()))?;
    let key = PublicKey::decode(&text).map_err(|error| malformed(error.to_string()))?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Key { name, id, key })
}

/// A new pair of keys: the texts of the public and the secret key's file. The secret one has the comment, and is encrypted with the
/// password, unless that is empty.
///
/// # Errors
/// The error of the system's source of randomness.
pub fn generate(comment: &str, password: &str) -> Result<(String, String), String> {
    let pair = if password.is_empty() {
        minisign::KeyPair::generate_unencrypted_keypair()
    } else {
        minisign::KeyPair::generate_encrypted_keypair(Some(password.to_owned()))
    };
    let pair = pair.map_err(|error| error.to_string())?;
    let public = pair.pk.to_box().map_err(|error| error.to_string())?;
    let secret = pair.sk.to_box(Some(comment)).map_err(|error| error.to_string())?;
    Ok((public.into_string(), secret.into_string()))
}

/// The text of a signature of these bytes, with the key in the file `secret`. An empty password is for a key that is not encrypted.
/// `comment` is the trusted comment, one line that the signature covers.
///
/// # Errors
/// [`KeyError`] if the file cannot be read or is no secret key, or the password is not that of the key.
pub fn sign(component: &[u8], secret: &Path, password: &str, comment: &str) -> Result<String, KeyError> {
    let malformed = |error: minisign::PError| KeyError::Malformed {
        path: secret.to_owned(),
        what: "secret key, or not with this password",
        problem: error.to_string(),
    };
    let boxed = minisign::SecretKeyBox::from_string(&text(secret)?).map_err(malformed)?;
    let key = if password.is_empty() {
        boxed.into_unencrypted_secret_key()
    } else {
        boxed.into_secret_key(Some(password.to_owned()))
    };
    let key = key.map_err(malformed)?;
    let signature =
        minisign::sign(None, &key, Cursor::new(component), Some(comment), None).map_err(malformed)?;
    Ok(signature.into_string())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    struct Site {
        tmp: tempfile::TempDir,
    }

    impl Site {
        fn new() -> Site {
            let tmp = tempfile::tempdir().unwrap();
            fs::create_dir(tmp.path().join("keys")).unwrap();
            fs::set_permissions(tmp.path().join("keys"), fs::Permissions::from_mode(0o755)).unwrap();
            Site { tmp }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.tmp.path().join(name)
        }

        /// A pair of keys of which the public one is trusted.
        fn key(&self, name: &str, password: &str) -> PathBuf {
            let (public, secret) = generate("for a test", password).unwrap();
            fs::write(self.path("keys").join(name).with_extension("pub"), public).unwrap();
            let path = self.path(name);
            fs::write(&path, secret).unwrap();
            path
        }
    }

    #[test]
    fn signed_and_verified() {
        let site = Site::new();
        let alice = site.key("alice", "");
        site.key("bob", "");
        let keys = Keys::open(&site.path("keys")).unwrap();
        assert_eq!(keys.iter().map(|key| key.name.as_str()).collect::<Vec<_>>(), ["alice", "bob"]);
        let signature = site.path("x.wasm.minisig");
        assert_eq!(signature, signature_path(&site.path("x.wasm")));
        fs::write(&signature, sign(b"component", &alice, "", "mine 1.0").unwrap()).unwrap();
        let signed = keys.verify(b"component", &signature).unwrap();
        assert_eq!((signed.key.as_str(), signed.comment.as_str()), ("alice", "mine 1.0"));
        assert_eq!(
            Keys::one(&site.path("keys/alice.pub")).unwrap().verify(b"component", &signature).unwrap(),
            signed
        );

        let error = keys.verify(b"Component", &signature).unwrap_err().to_string();
        assert!(error.contains("is not of this component"), "{error}");
        let error = Keys::one(&site.path("keys/bob.pub")).unwrap().verify(b"component", &signature);
        let error = error.unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("signed with key {}, which is not trusted", signed.id)),
            "{error}"
        );
        assert!(error.contains("(bob)"), "{error}");

        // The signature covers the comment.
        let text = fs::read_to_string(&signature).unwrap().replace("mine 1.0", "mine 2.0");
        fs::write(&signature, text).unwrap();
        assert!(matches!(keys.verify(b"component", &signature), Err(KeyError::Wrong { .. })));
    }

    #[test]
    fn what_is_no_signature_or_key_is_named() {
        let site = Site::new();
        let alice = site.key("alice", "");
        let keys = Keys::open(&site.path("keys")).unwrap();
        let signature = site.path("x.minisig");
        let refuse = || keys.verify(b"", &signature).unwrap_err().to_string();
        assert!(refuse().contains("x.minisig: No such file"));
        let good = sign(b"", &alice, "", "c").unwrap();
        let whole_lines = good.lines().count();
        for text in ["", "x", "a\nb\nc\nd\n", &good[..good.len() / 2], &"x".repeat(5000)] {
            fs::write(&signature, text).unwrap();
            assert!(refuse().contains("not a minisign "), "{text:?}: {}", refuse());
        }
        assert_eq!(whole_lines, 4);
        fs::write(&signature, "x").unwrap();
        assert!(
            sign(b"", &signature, "", "c").unwrap_err().to_string().contains("not a minisign secret key")
        );
        fs::write(site.path("keys/odd.pub"), "untrusted comment: x\nAAAA\n").unwrap();
        let error = Keys::open(&site.path("keys")).unwrap_err().to_string();
        assert!(error.contains("odd.pub: not a minisign public key"), "{error}");
    }

    #[test]
    fn keys_that_others_could_have_put_there_are_not_trusted() {
        let site = Site::new();
        site.key("alice", "");
        let folder = site.path("keys");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o775)).unwrap();
        let error = Keys::open(&folder).unwrap_err().to_string();
        assert!(error.contains("has mode 0775; accepted is one that only its owner may write"), "{error}");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(folder.join("alice.pub"), fs::Permissions::from_mode(0o666)).unwrap();
        assert!(Keys::open(&folder).unwrap_err().to_string().contains("alice.pub: has mode 0666"));
        assert!(Keys::open(&site.path("nowhere")).unwrap_err().to_string().contains("No such file"));
    }
}
