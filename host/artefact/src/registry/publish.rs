//! A component and its signature, into a registry.
//!
//! Content that the registry has already is not sent again, and the same component always gets the same digest. The tag is
//! set last: no client sees a publication that was cut short.

use std::path::Path;

use serde_json::Value;
use ureq::http::HeaderName;
use ureq::http::header::LOCATION;

use super::http::{self, Ask, Client};
use super::manifests::{self, EMPTY, INDEX, MANIFEST, sha256};
use super::{ANSWER_BYTES_MAX, Reference, RegistryError, Repository, Target, is_tag};

/// A component to publish.
#[derive(Debug, Clone, Copy)]
pub struct Component<'a> {
    /// Name of the policy.
    pub name: &'a str,
    /// Its version; the tag, where the target has none, with `_` for `+`.
    pub version: &'a str,
    /// One line that describes it, possibly empty.
    pub summary: &'a str,
    /// The person or organisation responsible for it.
    pub author: Option<&'a str>,
    /// An SPDX expression.
    pub license: Option<&'a str>,
    /// The location of its source.
    pub source: Option<&'a str>,
    /// Interfaces that it exports, with their version.
    pub exports: &'a [String],
    /// Interfaces that it imports, with their version.
    pub imports: &'a [String],
    /// The component.
    pub bytes: &'a [u8],
    /// Its minisign signature, which is not verified; `None` publishes none.
    pub signature: Option<&'a str>,
}

/// The result of a publication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// The reference for a pull, by the digest of the manifest.
    pub reference: Reference,
    /// The tag that was set.
    pub tag: String,
}

impl Target {
    /// Publishes a component. `docker` is the configuration of a container tool, whose `auths` for this host are used.
    ///
    /// # Errors
    /// [`RegistryError`]. The tag is set by the last request, so it is unchanged unless that one failed; what was sent before stays.
    pub fn publish(
        &self,
        component: &Component<'_>,
        docker: Option<&Path>,
    ) -> Result<Published, RegistryError> {
        let tag = self.tag.clone().unwrap_or_else(|| component.version.replace('+', "_"));
        if !is_tag(&tag) {
            return Err(RegistryError::Reference {
                found: tag,
                problem: "the version is no tag",
                expected: super::TARGET,
            });
        }
        let mut client = Client::new(&self.repository, docker);
        let config = manifests::wasm_config(component);
        let manifest = manifests::of_component(component, &config);
        let digest = sha256(&manifest);
        self.repository.upload(&mut client, component.bytes)?;
        self.repository.upload(&mut client, &config)?;
        let by_digest = self.repository.url(&format!("manifests/sha256:{digest}"));
        client.ask(&by_digest, Ask::Put(MANIFEST, &manifest), ANSWER_BYTES_MAX)?.with_status(&[201])?;
        if let Some(signature) = component.signature {
            self.sign(&mut client, component.name, signature.as_bytes(), &manifest)?;
        }
        let by_tag = self.repository.url(&format!("manifests/{tag}"));
        client.ask(&by_tag, Ask::Put(MANIFEST, &manifest), ANSWER_BYTES_MAX)?.with_status(&[201])?;
        Ok(Published { reference: Reference { repository: self.repository.clone(), digest }, tag })
    }

    /// A signature that refers to the component with this manifest.
    fn sign(
        &self,
        client: &mut Client,
        name: &str,
        signature: &[u8],
        subject: &[u8],
    ) -> Result<(), RegistryError> {
        self.repository.upload(client, signature)?;
        self.repository.upload(client, EMPTY)?;
        let manifest = manifests::of_signature(name, signature, subject);
        let url = self.repository.url(&format!("manifests/sha256:{}", sha256(&manifest)));
        let answer =
            client.ask(&url, Ask::Put(MANIFEST, &manifest), ANSWER_BYTES_MAX)?.with_status(&[201])?;
        if answer.header(HeaderName::from_static("oci-subject")).is_some() {
            return Ok(());
        }
        // This registry does not list the manifests that refer to a manifest; a tag does.
        let tag = manifests::referrers_tag(&sha256(subject));
        let url = self.repository.url(&format!("manifests/{tag}"));
        let there = client.ask(&url, Ask::Get(INDEX), ANSWER_BYTES_MAX)?.with_status(&[200, 404])?;
        let index: Option<Value> = match there.status {
            200 => Some(serde_json::from_slice(&there.body).map_err(|error| RegistryError::Manifest {
                url: url.clone(),
                problem: format!("not JSON: {error}"),
            })?),
            _ => None,
        };
        if let Some(index) = manifests::with_referrer(index, &manifest) {
            client.ask(&url, Ask::Put(INDEX, &index), ANSWER_BYTES_MAX)?.with_status(&[201])?;
        }
        Ok(())
    }
}

impl Repository {
    /// Stores content under its digest, unless it is there.
    fn upload(&self, client: &mut Client, content: &[u8]) -> Result<(), RegistryError> {
        let digest = sha256(content);
        let there = client.ask(&self.url(&format!("blobs/sha256:{digest}")), Ask::Head, ANSWER_BYTES_MAX)?;
        if there.status == 200 {
            return Ok(());
        }
        let url = self.url("blobs/uploads/");
        let begun = client.ask(&url, Ask::Post, ANSWER_BYTES_MAX)?.with_status(&[202])?;
        let place = begun.header(LOCATION).unwrap_or_default();
        let place = http::location(&begun.url, place).map_err(|expected| RegistryError::Field {
            url,
            field: "Location",
            expected,
        })?;
        let joint = if place.contains('?') { '&' } else { '?' };
        let place = format!("{place}{joint}digest=sha256:{digest}");
        let put = Ask::Put("application/octet-stream", content);
        client.ask(&place, put, ANSWER_BYTES_MAX)?.with_status(&[201])?;
        Ok(())
    }
}
