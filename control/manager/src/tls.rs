//! TLS 1.3, of the server and of the client (ADR 50).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, ring, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::version::TLS13;
use rustls::{
    ClientConfig, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig,
    SignatureScheme,
};

use crate::private::open_to_others;

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or not be used.
    #[error("{}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Key and certificate do not belong together, or are of a kind that is not supported.
    #[error("certificate {} and key {}: {error}", certificate.display(), key.display())]
    Pair {
        /// File of the certificate.
        certificate: PathBuf,
        /// File of the key.
        key: PathBuf,
        /// What is wrong.
        error: Error,
    },
}

/// A certificate with the certificates that lead to its authority, and its key: files in PEM.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The certificates.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

impl Identity {
    #[allow(clippy::type_complexity)]
    fn read(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
        let chain = certificates(&self.certificate)?;
        let refused = |why: String| TlsError::File { path: self.key.clone(), why };
        let found = std::fs::metadata(&self.key).map_err(|error| refused(error.to_string()))?;
        if let Some(why) = open_to_others(&found) {
            return Err(refused(why.to_owned()));
        }
        let key = PrivateKeyDer::from_pem_file(&self.key);
        Ok((chain, key.map_err(|error| refused(unreadable(&error, "a private key")))?))
    }

    fn refused(&self, error: Error) -> TlsError {
        let Identity { certificate, key } = self.clone();
        TlsError::Pair { certificate, key, error }
    }
}

/// The server's side.
///
/// # Errors
/// [`TlsError`].
pub fn server(identity: &Identity) -> Result<Arc<ServerConfig>, TlsError> {
    let (chain, key) = identity.read()?;
    let provider = Arc::new(ring::default_provider());
    let anybody = Arc::new(KeyHolder(provider.signature_verification_algorithms));
    let versions = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| identity.refused(error))?;
    let config = versions.with_client_cert_verifier(anybody).with_single_cert(chain, key);
    let mut config = config.map_err(|error| identity.refused(error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // Each ticket would be a copy of the client's certificate, at both ends.
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// The client's side: trusts the authorities (or the certificate itself) of a file and no others.
///
/// # Errors
/// [`TlsError`].
pub fn client(
    authority: &Path,
    identity: Option<&Identity>,
) -> Result<Arc<ClientConfig>, TlsError> {
    let refused = |why: String| TlsError::File { path: authority.to_owned(), why };
    let mut roots = RootCertStore::empty();
    for one in certificates(authority)? {
        roots.add(one).map_err(|error| refused(error.to_string()))?;
    }
    let versions = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| refused(error.to_string()))?;
    let builder = versions.with_root_certificates(roots);
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let (chain, key) = identity.read()?;
            let config = builder.with_client_auth_cert(chain, key);
            config.map_err(|error| identity.refused(error))?
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// The certificates of a file; at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let refused = |error: &pem::Error| TlsError::File {
        path: path.to_owned(),
        why: unreadable(error, "a certificate"),
    };
    let all = CertificateDer::pem_file_iter(path).map_err(|error| refused(&error))?;
    let all: Vec<_> = all.collect::<Result<_, _>>().map_err(|error| refused(&error))?;
    match all.is_empty() {
        true => Err(refused(&pem::Error::NoItemsFound)),
        false => Ok(all),
    }
}

fn unreadable(error: &pem::Error, wanted: &str) -> String {
    match error {
        pem::Error::Io(error) => error.to_string(),
        error => format!("not {wanted} in PEM ({error})"),
    }
}

/// Lets a client show a certificate, or none, and has it prove that it has the key. Who that is,
/// the registry knows by the certificate's hash; so there is no authority for clients.
#[derive(Debug)]
struct KeyHolder(WebPkiSupportedAlgorithms);

impl ClientCertVerifier for KeyHolder {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _chain: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 is not spoken".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
