use super::*;

/// Feeds these pieces to one reader and returns the result.
fn read(pieces: &[&[u8]]) -> Step {
    let mut reading = Reading::default();
    for piece in pieces {
        match reading.take(piece) {
            Ok(None) => {}
            end => return end,
        }
    }
    Ok(None)
}

fn hello(name: &str, alpn: &[&[u8]]) -> Vec<u8> {
    let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
    let name = name.to_owned().try_into().unwrap();
    let mut client = rustls::ClientConnection::new(config.into(), name).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

fn done(step: Step) -> Hello {
    match step {
        Ok(Some(hello)) => *hello,
        Ok(None) => panic!("wants more"),
        Err(unfit) => panic!("{unfit:?}"),
    }
}

#[test]
fn a_hello_tells_what_the_lookup_needs() {
    let hello = |name, alpn: &[&[u8]]| done(read(&[&hello(name, alpn)]));
    let plain = hello("A.example", &[]);
    assert_eq!(plain.sni, Sni::Name(HostName::parse("a.example").unwrap()));
    assert!(plain.tls13 && !plain.challenge && plain.rest.is_empty());
    assert_eq!(hello("127.0.0.1", &[]).sni, Sni::None);
    assert_eq!(hello("::1", &[]).sni, Sni::None);
    assert!(hello("a.example", &[b"acme-tls/1"]).challenge);
    assert!(!hello("a.example", &[b"acme-tls/1", b"h2"]).challenge);
    assert!(!hello("a.example", &[b"h2", b"http/1.1"]).challenge);
}

#[test]
fn a_hello_may_come_byte_by_byte_and_with_more_behind_it() {
    let bytes = hello("a.example", &[b"h2"]);
    let pieces: Vec<&[u8]> = bytes.chunks(1).collect();
    assert!(done(read(&pieces)).rest.is_empty());
    let more = [&bytes[..], &[0x14, 3, 3, 0, 1, 1]].concat();
    let hello = done(read(&[&more]));
    let behind = hello.rest.len();
    // rustls may have taken the bytes already; none are lost either way.
    assert!(behind == 0 || hello.rest == [0x14, 3, 3, 0, 1, 1]);
}

#[test]
fn a_hello_that_is_cut_waits_for_the_rest() {
    let bytes = hello("a.example", &[]);
    for cut in 1..bytes.len() {
        assert!(matches!(read(&[&bytes[..cut]]), Ok(None)), "{cut}");
    }
}

#[test]
fn a_hello_in_many_records_is_one() {
    let bytes = hello("a.example", &[]);
    let (header, body) = bytes.split_at(5);
    for size in [1, 7, 100] {
        let mut records = Vec::new();
        for part in body.chunks(size) {
            records.extend_from_slice(&header[..3]);
            records.extend_from_slice(&u16::try_from(part.len()).unwrap().to_be_bytes());
            records.extend_from_slice(part);
        }
        done(read(&[&records]));
    }
}

#[test]
fn plain_http_is_told_from_rubbish() {
    for http in [
        "GET / HTTP/1.1\r\n",
        "POST /x HTTP/1.0",
        "PRI * HTTP/2.0\r\n",
    ] {
        let whole = read(&[http.as_bytes()]);
        assert!(matches!(whole, Err(Unfit::PlainHttp)), "{http}");
        let bytes: Vec<&[u8]> = http.as_bytes().chunks(1).collect();
        assert!(matches!(read(&bytes), Err(Unfit::PlainHttp)));
    }
    for rubbish in [
        &b"SSH-2.0-x\r\n"[..],
        b"\x80\x2e\x01",
        b"\0\0\0\0",
        b"GETX / ",
    ] {
        let step = read(&[rubbish]);
        assert!(matches!(step, Err(Unfit::NotTls)), "{rubbish:?}");
    }
    assert!(matches!(read(&[b"GE"]), Ok(None)));
}

#[test]
fn an_oversized_hello_ends() {
    // A handshake record that announces more bytes than [`HELLO_LIMIT`].
    let mut record = vec![0x16, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff];
    record.resize(5 + 0x4000, 0);
    let pieces: Vec<&[u8]> = std::iter::repeat_n(&record[..], 10).collect();
    let step = read(&pieces);
    let ended = matches!(step, Err(Unfit::TooLong | Unfit::Malformed(..)));
    assert!(ended);
    // An endless sequence of empty records.
    let empty = [0x16, 3, 1, 0, 0].repeat(HELLO_LIMIT);
    assert!(read(&[&empty]).is_err());
}

/// Makes a ClientHello of about this size.
fn long_hello(size: usize) -> Vec<u8> {
    let protocol = [b'x'; 255];
    hello("a.example", &vec![&protocol[..]; size / 256])
}

#[test]
fn the_limit_counts_the_hello_and_not_what_follows() {
    let early = [&[0x17, 3, 3, 0x40, 0][..], &[7; 0x4000]].concat();
    let long = long_hello(HELLO_LIMIT - 1024);
    assert!(long.len() < HELLO_LIMIT && long.len() > HELLO_LIMIT - 1024);
    let hello = done(read(&[&[&long[..], &early].concat()]));
    assert!(hello.rest.ends_with(&[7; 0x3000]));
    let too_long = long_hello(HELLO_LIMIT);
    for size in [1, 1000, too_long.len()] {
        let pieces: Vec<&[u8]> = too_long.chunks(size).collect();
        let step = read(&pieces);
        assert!(matches!(step, Err(Unfit::TooLong)), "{size}");
    }
}

#[test]
fn another_first_record_is_no_hello() {
    for kind in [0x14, 0x17, 0x18] {
        let record = [kind, 3, 3, 0, 1, 1];
        let pieces: Vec<&[u8]> = record.chunks(1).collect();
        for pieces in [&pieces[..], &[&record]] {
            assert!(matches!(read(pieces), Err(Unfit::NoHello)));
        }
        let step = read(&[&[kind, 2, 0]]);
        assert!(matches!(step, Err(Unfit::NotTls)), "another version");
    }
    let alert = read(&[&[0x15, 3, 3, 0, 2, 2, 40]]);
    assert!(matches!(alert, Err(Unfit::NotTls)), "no answer");
}

#[test]
fn an_invalid_server_name_gets_rustlss_alert() {
    let mut bytes = hello("aaaaaaaa.example", &[]);
    let at = bytes.windows(8).position(|w| w == b"aaaaaaaa").unwrap();
    bytes[at] = b'/';
    let Err(Unfit::Malformed(alert, _)) = read(&[&bytes]) else {
        panic!("taken");
    };
    assert_eq!(alert, [21, 3, 3, 0, 2, 2, 47], "illegal_parameter");
    bytes[at] = b'-';
    match read(&[&bytes]) {
        Ok(Some(hello)) => assert_eq!(hello.sni, Sni::Impossible),
        Err(Unfit::Malformed(..)) => {}
        _ => panic!("neither refused nor impossible"),
    }
}

#[test]
fn no_bytes_panic() {
    let valid = hello("a.example", &[b"h2"]);
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for _ in 0..20_000 {
        let mut bytes = valid.clone();
        for _ in 0..random() % 8 {
            let at = usize::try_from(random()).unwrap() % bytes.len();
            bytes[at] = random() as u8;
        }
        bytes.truncate(1 + usize::try_from(random()).unwrap() % bytes.len());
        let step = read(&[&bytes]);
        if let Err(Unfit::Malformed(alert, _)) = step {
            assert!(alert.len() == 7 || alert.is_empty());
        }
    }
    for _ in 0..20_000 {
        let len = usize::try_from(random() % 600).unwrap();
        let mut bytes: Vec<u8> = (0..len).map(|_| random() as u8).collect();
        if let Some(first) = bytes.first_mut().filter(|_| len % 2 == 0) {
            *first = TLS_HANDSHAKE;
        }
        let _ = read(&[&bytes]);
    }
}
