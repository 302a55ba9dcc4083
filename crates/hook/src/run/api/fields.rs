//! Fields of `tls`, made when they are read.

use std::sync::Arc;

use mlua::{Error, Function, Lua, Result, Value};

use crate::hello::Hello;
use crate::imports::Imports;
use crate::run::Run;
use crate::run::state::Current;

/// Makes the function that is asked for what is not a method.
pub(super) fn index<I: Imports>(lua: &Lua, current: &Arc<Current<I>>) -> Result<Function> {
    let of = Arc::clone(current);
    let server_name = lua.create_function(move |lua, ()| {
        let run = of.run()?;
        let name = hello(&run)?.server_name.as_ref();
        name.map(|name| lua.create_string(name.as_str()))
            .transpose()
    })?;
    let of = Arc::clone(current);
    let other = lua.create_function(move |lua, (_, name): (Value, String)| {
        let run = of.run()?;
        let hello = hello(&run)?;
        let facts = &*hello.facts;
        let text = |text: String| Ok(Value::String(lua.create_string(text)?));
        let each = |numbers: &[u16], names: &[(u16, &str)]| {
            let named = numbers.iter().map(|number| named(*number, names));
            Ok(Value::Table(lua.create_sequence_from(named)?))
        };
        match &*name {
            "client_addr" => text(hello.facts.client.ip().to_canonical().to_string()),
            "client_port" => Ok(Value::Integer(hello.facts.client.port().into())),
            "local_addr" => text(hello.facts.local.ip().to_canonical().to_string()),
            "local_port" => Ok(Value::Integer(hello.facts.local.port().into())),
            "alpn" => {
                let protocols = facts
                    .alpn
                    .iter()
                    .map(|protocol| lua.create_string(protocol));
                let protocols = protocols.collect::<Result<Vec<_>>>()?;
                Ok(Value::Table(lua.create_sequence_from(protocols)?))
            }
            "signature_schemes" => each(&facts.signature_schemes, &SCHEMES),
            "cipher_suites" => each(&facts.cipher_suites, &SUITES),
            "named_groups" => each(&facts.named_groups, &GROUPS),
            _ => Err(Error::RuntimeError(format!(
                "tls has no `{name}` (docs/hook.md lists its fields and methods)"
            ))),
        }
    })?;
    let wrapper = lua.load(INDEX).set_name("=prelude");
    wrapper.call((server_name, other))
}

fn hello<I: Imports>(run: &Run<I>) -> Result<&Hello> {
    let error = || Error::runtime("there is no client (read it within `handshake`)");
    run.hello.as_deref().ok_or_else(error)
}

/// Returns IANA's name for a number, or the number as `0x0403`.
fn named(number: u16, names: &[(u16, &str)]) -> String {
    match names.iter().find(|(named, _)| *named == number) {
        Some((_, name)) => (*name).to_owned(),
        None => format!("{number:#06x}"),
    }
}

const INDEX: &str = include_str!("fields.luau");

const SCHEMES: [(u16, &str); 14] = [
    (0x0201, "rsa_pkcs1_sha1"),
    (0x0203, "ecdsa_sha1"),
    (0x0401, "rsa_pkcs1_sha256"),
    (0x0403, "ecdsa_secp256r1_sha256"),
    (0x0501, "rsa_pkcs1_sha384"),
    (0x0503, "ecdsa_secp384r1_sha384"),
    (0x0601, "rsa_pkcs1_sha512"),
    (0x0603, "ecdsa_secp521r1_sha512"),
    (0x0804, "rsa_pss_rsae_sha256"),
    (0x0805, "rsa_pss_rsae_sha384"),
    (0x0806, "rsa_pss_rsae_sha512"),
    (0x0807, "ed25519"),
    (0x0808, "ed448"),
    (0x0809, "rsa_pss_pss_sha256"),
];

const SUITES: [(u16, &str); 10] = [
    (0x00ff, "TLS_EMPTY_RENEGOTIATION_INFO_SCSV"),
    (0x1301, "TLS_AES_128_GCM_SHA256"),
    (0x1302, "TLS_AES_256_GCM_SHA384"),
    (0x1303, "TLS_CHACHA20_POLY1305_SHA256"),
    (0xc02b, "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
    (0xc02c, "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
    (0xc02f, "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
    (0xc030, "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
    (0xcca8, "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
    (0xcca9, "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
];

const GROUPS: [(u16, &str); 8] = [
    (0x0017, "secp256r1"),
    (0x0018, "secp384r1"),
    (0x0019, "secp521r1"),
    (0x001d, "x25519"),
    (0x001e, "x448"),
    (0x0100, "ffdhe2048"),
    (0x11eb, "SecP256r1MLKEM768"),
    (0x11ec, "X25519MLKEM768"),
];
