use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CustomExtension, DnType,
    ExtendedKeyUsagePurpose, GeneralSubtree, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    NameConstraints, date_time_ymd,
};

use super::*;

const NOW: i64 = 1_800_000_000;
const VALID: Dates = Dates::ValidAt(NOW);

/// Change that a test makes to a certificate.
type Change = fn(&mut CertificateParams);

fn unchanged(_: &mut CertificateParams) {}

fn params(name: &str, change: Change) -> CertificateParams {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    change(&mut params);
    params
}

fn authority(name: &str, change: Change) -> CertificateParams {
    let mut params = params(name, unchanged);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    change(&mut params);
    params
}

fn leaf(change: Change) -> CertificateParams {
    let mut params = params("leaf", unchanged);
    let names =
        ["a.example", "*.b.example"].map(|name| rcgen::SanType::DnsName(name.try_into().unwrap()));
    params.subject_alt_names = names.to_vec();
    change(&mut params);
    params
}

/// A leaf below two intermediates below a root, with its key.
fn chain(upper: Change, lower: Change, of_leaf: Change) -> (Vec<Certificate>, KeyPair) {
    let keys = [(); 4].map(|()| KeyPair::generate().unwrap());
    let [root_key, upper_key, lower_key, key] = keys;
    let root = Issuer::new(authority("root", unchanged), root_key);
    let upper = authority("upper", upper);
    let upper_der = upper.signed_by(&upper_key, &root).unwrap();
    let upper = Issuer::new(upper, upper_key);
    let lower = authority("lower", lower);
    let lower_der = lower.signed_by(&lower_key, &upper).unwrap();
    let lower = Issuer::new(lower, lower_key);
    let leaf = leaf(of_leaf).signed_by(&key, &lower).unwrap();
    (vec![leaf, lower_der, upper_der], key)
}

fn pem(chain: &[Certificate]) -> String {
    chain.iter().map(Certificate::pem).collect()
}

fn hosts(names: &[&str]) -> Vec<HostPattern> {
    let parse = |name: &&str| HostPattern::parse(name).unwrap();
    names.iter().map(parse).collect()
}

fn verify(chain: &[Certificate], key: &KeyPair, dates: Dates) -> Result<()> {
    let key = key.serialize_pem();
    let credential = Credential::parse(pem(chain).as_bytes(), key.as_bytes(), dates)?;
    credential.verify(&hosts(&["a.example", "*.b.example", "x.b.example"]), dates)
}

fn unknown_extension(params: &mut CertificateParams) {
    let mut extension = CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 99_999], vec![5, 0]);
    extension.set_criticality(true);
    params.custom_extensions.push(extension);
}

fn for_clients(params: &mut CertificateParams) {
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
}

fn signs_lists_alone(params: &mut CertificateParams) {
    params.key_usages = vec![KeyUsagePurpose::CrlSign];
}

fn expired_issuer(params: &mut CertificateParams) {
    params.not_after = date_time_ymd(2021, 1, 1);
}

fn without_authorities_below(params: &mut CertificateParams) {
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
}

fn for_other_names(params: &mut CertificateParams) {
    params.name_constraints = Some(NameConstraints {
        permitted_subtrees: vec![GeneralSubtree::DnsName("other.example".into())],
        excluded_subtrees: vec![],
    });
}

#[test]
fn a_sound_chain_passes() {
    let (chain, key) = chain(unchanged, unchanged, unchanged);
    verify(&chain, &key, VALID).unwrap();
    verify(&chain[..2], &key, VALID).unwrap();
}

#[test]
fn what_clients_refuse_is_refused_with_its_certificate() {
    let precertificate: Change = |params| {
        let oid = [1, 3, 6, 1, 4, 1, 11_129, 2, 4, 3];
        let mut poison = CustomExtension::from_oid_content(&oid, vec![5, 0]);
        poison.set_criticality(true);
        params.custom_extensions.push(poison);
    };
    let an_authority: Change = |params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let of_leaf: [(Change, &str); 5] = [
        (
            unknown_extension,
            "CN=leaf: clients do not know its critical extension 1.3.6.1.4.1.99999",
        ),
        (precertificate, "CN=leaf: it is a precertificate"),
        (
            for_clients,
            "CN=leaf: its extended key usage is not for TLS servers",
        ),
        (signs_lists_alone, "CN=leaf: its key usage"),
        (an_authority, "CN=leaf: it is an authority's certificate"),
    ];
    for (change, wanted) in of_leaf {
        let (chain, key) = chain(unchanged, unchanged, change);
        let error = verify(&chain, &key, VALID).unwrap_err().to_string();
        assert!(error.contains(wanted), "{wanted}: {error}");
    }
    let of_issuers: [(Change, &str); 5] = [
        (
            unknown_extension,
            "clients do not know its critical extension",
        ),
        (for_clients, "its extended key usage is not for TLS servers"),
        (signs_lists_alone, "does not allow it to sign certificates"),
        (
            expired_issuer,
            "this issuer is not valid now (until 2021-01-01T",
        ),
        (for_other_names, "name constraints do not allow"),
    ];
    for (change, wanted) in of_issuers {
        for (upper, lower) in [(change, unchanged as Change), (unchanged, change)] {
            let (chain, key) = chain(upper, lower, unchanged);
            let error = verify(&chain, &key, VALID).unwrap_err().to_string();
            assert!(error.contains(wanted), "{wanted}: {error}");
        }
    }
    let (chain, key) = chain(without_authorities_below, unchanged, unchanged);
    let error = verify(&chain, &key, VALID).unwrap_err().to_string();
    assert!(
        error.contains("CN=upper: it allows 0 authorities below it, and there are 1"),
        "{error}"
    );
    // Without the one above it, the lower may be the last.
    verify(&chain[..2], &key, VALID).unwrap();
}

#[test]
fn dates_of_issuers_count_unless_any_pass() {
    let (chain, key) = chain(expired_issuer, unchanged, unchanged);
    verify(&chain, &key, VALID).unwrap_err();
    verify(&chain, &key, Dates::Any).unwrap();
}

#[test]
fn a_self_signed_leaf_is_judged_by_its_own_extensions() {
    let verify = |change: Change| {
        let key = KeyPair::generate().unwrap();
        let leaf = leaf(change).self_signed(&key).unwrap();
        verify(&[leaf], &key, VALID)
    };
    verify(unchanged).unwrap();
    // As `openssl req -x509` makes them.
    verify(|params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained)).unwrap();
    for change in [unknown_extension as Change, for_clients, signs_lists_alone] {
        verify(change).unwrap_err();
    }
    verify(|params| params.not_after = date_time_ymd(2021, 1, 1)).unwrap_err();
}

#[test]
fn a_leaf_of_a_known_root_stands_alone() {
    let make = |change: Change| {
        let key = KeyPair::generate().unwrap();
        let params = authority("root", change);
        let der = params.self_signed(&key).unwrap();
        (Issuer::new(params, key), der)
    };
    let (root, der) = make(unchanged);
    let key = KeyPair::generate().unwrap();
    let leaf = leaf(unchanged).signed_by(&key, &root).unwrap();
    let (pem, text) = (leaf.pem(), key.serialize_pem());
    let parse = |roots: &[CertificateDer<'static>]| {
        Credential::parse_under(pem.as_bytes(), text.as_bytes(), VALID, roots)
    };
    let error = parse(&[]).unwrap_err();
    assert!(error.to_string().contains("--ca FILE"), "{error}");
    // Of that name, with another key.
    parse(&[make(unchanged).1.der().clone()]).unwrap_err();
    let credential = parse(&[make(unchanged).1.der().clone(), der.der().clone()]).unwrap();
    assert_eq!(credential.chain().len(), 1);
    credential.verify(&hosts(&["a.example"]), VALID).unwrap();
    let refused = credential.verify(&hosts(&["c.example"]), VALID);
    assert!(refused.unwrap_err().to_string().contains("c.example"));
}
