use super::*;

#[test]
fn opens_only_where_it_was_sealed() {
    let ring = KeyRing::new(MasterKey::new(&[7; 32]));
    let catalog = CatalogId([1; 16]);
    let credential = CredentialId::from_u64(5);
    let (spki, document) = (&b"public"[..], DocumentId::new("a", "b"));
    let bound = Bound::key(catalog, credential, spki);
    let secret = Secret::new(b"private".to_vec());
    let sealed = ring.seal(&secret, &bound);
    assert!(!sealed.bytes.windows(7).any(|bytes| bytes == b"private"));
    assert_eq!(ring.unseal(sealed.clone(), &bound), Ok(secret));
    let elsewhere = [
        Bound::key(CatalogId([2; 16]), credential, spki),
        Bound::key(catalog, CredentialId::from_u64(6), spki),
        Bound::key(catalog, credential, b"another"),
        Bound::document(catalog, &document),
    ];
    for bound in elsewhere {
        let opened = ring.unseal(sealed.clone(), &bound);
        assert_eq!(opened, Err(UnsealError::Forged), "{bound:?}");
    }
    for flipped in 0..sealed.bytes.len() {
        let mut sealed = sealed.clone();
        sealed.bytes[flipped] ^= 1;
        assert_eq!(ring.unseal(sealed, &bound), Err(UnsealError::Forged));
    }
}

/// Bytes that another implementation of AES-256-GCM made.
#[test]
fn the_stored_form_stays() {
    let ring = KeyRing::new(MasterKey::new(&[7; 32]));
    let mut sealed = SealedBytes {
        key_id: ring.first(),
        nonce: [3; 12],
        bytes: data_encoding::HEXLOWER
            .decode(b"558cca753b5c3bf96ab22832bbf6e7564720e2c139f7c1")
            .unwrap(),
    };
    let bound = Bound::document(CatalogId([0; 16]), &DocumentId::new("k", "1"));
    let opened = ring.unseal(sealed.clone(), &bound).unwrap();
    assert_eq!(opened.expose(), b"private");
    // Cut below the length of a tag.
    sealed.bytes.truncate(15);
    assert_eq!(ring.unseal(sealed, &bound), Err(UnsealError::Forged));
}

#[test]
fn parts_of_a_place_do_not_run_together() {
    let document = |kind: &'static str, key: &'static str| {
        Bound::document(CatalogId([0; 16]), &DocumentId::new(kind, key))
    };
    assert_ne!(document("ab", "c"), document("a", "bc"));
}

#[test]
fn all_keys_open_and_one_seals() {
    let bound = Bound::document(CatalogId([0; 16]), &DocumentId::new("k", "1"));
    let old = KeyRing::new(MasterKey::new(&[1; 32]));
    let sealed = old.seal(&Secret::new(vec![9; 40]), &bound);
    let both = KeyRing::new(MasterKey::new(&[2; 32]))
        .with(MasterKey::new(&[1; 32]))
        .with(MasterKey::new(&[1; 32]));
    assert_eq!(both.ids().collect::<Vec<_>>(), [both.first(), old.first()]);
    assert_eq!(both.newest(), old.first());
    assert_eq!(
        both.unseal(sealed.clone(), &bound).unwrap().expose(),
        [9; 40]
    );
    let again = both.seal(&Secret::new(vec![]), &bound);
    assert_eq!(again.key_id, both.first());
    assert_ne!(both.first(), old.first());
    let nothing = Secret::new(Vec::new());
    let under = both.seal_under(old.first(), &nothing, &bound);
    assert_eq!(under.unwrap().key_id, old.first());
    assert!(old.seal_under(both.first(), &nothing, &bound).is_none());
    let new = KeyRing::new(MasterKey::new(&[2; 32]));
    assert_eq!(
        new.unseal(sealed, &bound),
        Err(UnsealError::UnknownKey(old.first()))
    );
}

#[test]
fn debug_shows_no_key() {
    let key = MasterKey::new(&[0xab; 32]);
    let shown = format!("{:?} {:?}", KeyRing::new(key), Secret::new(vec![0xab; 4]));
    assert!(!shown.contains("abab") && !shown.contains("171"), "{shown}");
}
