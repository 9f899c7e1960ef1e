//! Certificates, created in each run.

use std::sync::atomic::{AtomicU64, Ordering};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber,
    date_time_ymd,
};

/// No two certificates of a run have the same.
static NEXT_SERIAL: AtomicU64 = AtomicU64::new(1);

/// Signs certificates.
pub(crate) struct Authority {
    pub(crate) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its private key, in PEM.
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
    serial: u64,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Authority {
        let mut params = named(name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate of its own").pem();
        Authority { pem, issuer: Issuer::new(params, key) }
    }

    /// A server's identity for these hosts, names or addresses.
    pub(crate) fn server(&self, hosts: &[&str]) -> Identity {
        self.sign(named("server", hosts), ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A client's identity.
    pub(crate) fn client(&self, name: &str) -> Identity {
        self.sign(named(name, &[]), ExtendedKeyUsagePurpose::ClientAuth)
    }

    /// The list of what this authority has revoked, in PEM.
    pub(crate) fn revocations(&self, revoked: &[&Identity]) -> String {
        let begun = date_time_ymd(2024, 1, 1);
        let revoked = revoked.iter().map(|identity| RevokedCertParams {
            serial_number: SerialNumber::from(identity.serial),
            revocation_time: begun,
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: begun,
            next_update: date_time_ymd(2999, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer).and_then(|list| list.pem()).expect("a signed list")
    }

    fn sign(&self, mut params: CertificateParams, usage: ExtendedKeyUsagePurpose) -> Identity {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        let serial = NEXT_SERIAL.fetch_add(1, Ordering::Relaxed);
        params.serial_number = Some(SerialNumber::from(serial));
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a signed certificate").pem();
        Identity { certificate, key: key.serialize_pem(), serial }
    }
}

fn named(name: &str, hosts: &[&str]) -> CertificateParams {
    let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
    let mut params = CertificateParams::new(hosts).expect("hosts for a certificate");
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}
