//! A component and its signatures, from a registry.

use std::path::Path;

use serde_json::Value;

use super::http::{Ask, Client, in_query};
use super::manifests::{self, INDEX, MANIFESTS, sha256};
use super::{ANSWER_BYTES_MAX, COMPONENT_TYPES, Reference, RegistryError, SIGNATURE_TYPE};
use crate::keys::TEXT_BYTES_MAX;

/// The result of a pull.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulled {
    /// The component.
    pub component: Vec<u8>,
    /// Its signatures, none verified. Equal ones are in it once.
    pub signatures: Vec<String>,
}

impl Client {
    /// The content with this digest at this URL.
    fn content(
        &mut self,
        url: &str,
        digest: &str,
        accept: &str,
        bytes_max: u64,
    ) -> Result<Vec<u8>, RegistryError> {
        let answer = self.ask(url, Ask::Get(accept), bytes_max)?.with_status(&[200])?;
        let found = sha256(&answer.body);
        if found != digest {
            let (url, wanted) = (url.to_owned(), digest.to_owned());
            return Err(RegistryError::Digest { url, found, wanted });
        }
        Ok(answer.body)
    }
}

/// A manifest, whose `url` is for errors.
fn read(url: &str, text: &[u8]) -> Result<Value, RegistryError> {
    serde_json::from_slice(text).map_err(|error| refuse(url, format!("not JSON: {error}")))
}

fn refuse(url: &str, problem: impl Into<String>) -> RegistryError {
    RegistryError::Manifest { url: url.to_owned(), problem: problem.into() }
}

impl Reference {
    /// Fetches the component, of at most `bytes_max`, and its signatures. `docker` is the configuration of a container
    /// tool, whose `auths` for this host are used. Nothing is written to a disk.
    ///
    /// # Errors
    /// [`RegistryError`] without an answer, for an error status, content that is too large or of another digest, or a manifest without
    /// exactly one component.
    pub fn pull(&self, bytes_max: u64, docker: Option<&Path>) -> Result<Pulled, RegistryError> {
        let mut client = Client::new(&self.repository, docker);
        let url = self.repository.url(&format!("manifests/sha256:{}", self.digest));
        let text = client.content(&url, &self.digest, MANIFESTS, ANSWER_BYTES_MAX)?;
        let manifest = read(&url, &text)?;
        let [component] = manifests::layers(&manifest, &COMPONENT_TYPES)[..] else {
            let found = manifests::layers(&manifest, &COMPONENT_TYPES).len();
            let accepted = COMPONENT_TYPES.join(" or ");
            return Err(refuse(&url, format!("{found} layers of type {accepted}; expected is one")));
        };
        let component = self.blob(&mut client, &url, component, bytes_max)?;
        let mut signatures = self.signature_in(&mut client, &url, &manifest)?;
        for digest in self.referrers(&mut client)? {
            let url = self.repository.url(&format!("manifests/sha256:{digest}"));
            let manifest = client.content(&url, &digest, MANIFESTS, ANSWER_BYTES_MAX)?;
            let found = self.signature_in(&mut client, &url, &read(&url, &manifest)?)?;
            if found.is_empty() {
                return Err(refuse(&url, format!("no layer of type {SIGNATURE_TYPE}; expected is one")));
            }
            signatures.extend(found);
        }
        signatures.sort();
        signatures.dedup();
        Ok(Pulled { component, signatures })
    }

    /// The content of a layer of the manifest at `url`.
    fn blob(
        &self,
        client: &mut Client,
        url: &str,
        layer: &Value,
        bytes_max: u64,
    ) -> Result<Vec<u8>, RegistryError> {
        let digest =
            manifests::digest_of(layer).ok_or_else(|| refuse(url, "a layer without a sha256 digest"))?;
        client.content(&self.repository.url(&format!("blobs/sha256:{digest}")), &digest, "*/*", bytes_max)
    }

    /// The signature that is a layer of the manifest at `url`.
    fn signature_in(
        &self,
        client: &mut Client,
        url: &str,
        manifest: &Value,
    ) -> Result<Vec<String>, RegistryError> {
        match manifests::layers(manifest, &[SIGNATURE_TYPE])[..] {
            [] => Ok(Vec::new()),
            [layer] => {
                let text = self.blob(client, url, layer, TEXT_BYTES_MAX)?;
                String::from_utf8(text)
                    .map(|text| vec![text])
                    .map_err(|_| refuse(url, "the signature is no text"))
            }
            _ => Err(refuse(url, "more than one signature")),
        }
    }

    /// Digests of the manifests of signatures that refer to the component.
    fn referrers(&self, client: &mut Client) -> Result<Vec<String>, RegistryError> {
        let kind = in_query(SIGNATURE_TYPE);
        let listed = self.repository.url(&format!("referrers/sha256:{}?artifactType={kind}", self.digest));
        let tagged = self.repository.url(&format!("manifests/{}", manifests::referrers_tag(&self.digest)));
        for url in [listed, tagged] {
            let answer = client.ask(&url, Ask::Get(INDEX), ANSWER_BYTES_MAX)?;
            if answer.status == 404 {
                continue;
            }
            let answer = answer.with_status(&[200])?;
            return manifests::signatures_in(&read(&url, &answer.body)?)
                .map_err(|problem| refuse(&url, problem));
        }
        Ok(Vec::new())
    }
}
