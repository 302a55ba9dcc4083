use super::*;

fn verifies(text: &str, password: &str) -> bool {
    let hash = PasswordHash::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    hash.verify(password.as_bytes())
}

/// Hashes that `openssl passwd`, `htpasswd`, glibc's crypt(3) and the reference
/// implementation of Argon2 made, of each password in [`PASSWORDS`].
const MADE: [[&str; 9]; 2] = [
    [
        "$apr1$8sFt66rZ$eup.HOtZcQ/VrnApBM3rR/",
        "$5$0123456789abcdef$r6nzC5LUC0uVXFw52gWstJ181ms.XFW71j20yui2zG7",
        "$6$ab./XY$tarbk7AiSdomvfTUV5JmM7KWUN/nSS6tHP5xXxU3txjMuaA91c9ZT7xpD1v1.IZj2dKmU2VrLTFaV6Fsh2wAB1",
        "$2y$04$QhtKrt71FtdqBMwDWBor2.kkDYI9keh2lwOa58YFT3pBtiHphO.Iq",
        "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=",
        "$5$rounds=1000$saltstring$AH5PD0i.riCRu4BNDy9v7OPV7u3dfLBApcXI6khquVA",
        "$6$rounds=10000$saltstringsaltst$pd39sho0N9RQ9kBqr/GiEIzaHjerJu4CxVPYePE5jfjjCMuAhIOMsxD1YmKDs5O3f7YzXBxZgxuvn9U1eorJM/",
        "$argon2id$v=19$m=64,t=2,p=1$MDEyMzQ1Njc4OWFiY2RlZg$NZM9HruDlpv+svG+Wf5n9elNeM0OXMUpS4QH8zsitbM",
        "$argon2id$v=19$m=256,t=1,p=4$MDEyMzQ1Njc4OWFiY2RlZg$9iW5/T+759na8XL9PhH/iQmf9bOMaGzhebYC6uoYLt8",
    ],
    [
        "$apr1$8sFt66rZ$kTys0qS50FjF9G54h89bP.",
        "$5$0123456789abcdef$jfI9GsDeOz5Pea2U0iWKcRo0iq8Gnene41bnDkL03P3",
        "$6$ab./XY$Y0jh5CnRl1XXPKqES8PaUgUQkOsMh91L.EnqOMKmnfUtd9gIPAFisqu1SCInGQBUtFAW3HUl3R0LIqPZhVQlM1",
        "$2y$04$5VEf.ybKzRUSg83aNb6dxeTxLcgqJHr8BmJlWZfOd2TS54iqWNGtq",
        "{SHA}4zsoXBkrjcC5uWDT/F+UevcMfRw=",
        "$5$rounds=1000$saltstring$nDBA0xpgpe2LZodWarsTEXoYrVEBHpCzdcQNhcXxZh4",
        "$6$rounds=10000$saltstringsaltst$Eh64UAEXzGAeLSdHUmiBlgtBMcByKnX34BFsTAi0BGO.ClF75FjQgq.A.8yNJuZ1MTJLr/LJwgxp931sOMvfk1",
        "$argon2id$v=19$m=64,t=2,p=1$MDEyMzQ1Njc4OWFiY2RlZg$iibIZ7mef8nT30blTBRGar+ZW9489LZPulquWFN2wOU",
        "$argon2id$v=19$m=256,t=1,p=4$MDEyMzQ1Njc4OWFiY2RlZg$nhwaqQN9U7z7dxTudvLqebj0Ri7zbPOcpEnaXZA7Xrs",
    ],
];

/// Passwords of [`MADE`]. The second is longer than the 72 bytes that bcrypt reads, and
/// than a block of MD5.
const PASSWORDS: [&str; 2] = [
    "secret",
    "pässwörd mit 30 Zeichen und mehr als 64 Byte: 0123456789 0123456789 0123456789",
];

#[test]
fn each_kind_takes_its_password_alone() {
    for (hashes, password) in MADE.iter().zip(PASSWORDS) {
        for hash in hashes {
            assert!(verifies(hash, password), "{hash}");
            for other in ["", "Secret", "secret\0", "secre", &password[1..]] {
                assert!(!verifies(hash, other), "{hash} {other:?}");
            }
        }
    }
    let as_b = MADE[0][3].replace("$2y$", "$2b$");
    let as_a = MADE[0][3].replace("$2y$", "$2a$");
    assert!(verifies(&as_a, "secret") && verifies(&as_b, "secret"));
}

#[test]
fn lengths_around_blocks_of_sums_are_computed() {
    // `openssl passwd -apr1 -salt ab` of so many letters.
    for (length, hash) in [
        (1, "$apr1$ab$MW8Wizufu9hz465GKNNrn."),
        (15, "$apr1$ab$V/gu6EGWNmQ2FOZ4Y76Vd/"),
        (16, "$apr1$ab$CPGf3u3ANefTN8dE6qNzQ/"),
        (17, "$apr1$ab$KpQOVf0eYKCGpjDY.xK.0/"),
        (32, "$apr1$ab$lSVAC2rccWlUps3VFCVqK/"),
        (64, "$apr1$ab$DWbR3k5/.5QexPybZzTIq."),
    ] {
        assert!(verifies(hash, &"a".repeat(length)), "{length}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn a_hash_that_is_cut_or_costs_too_much_is_refused() {
    let bcrypt = "QhtKrt71FtdqBMwDWBor2.kkDYI9keh2lwOa58YFT3pBtiHphO.Iq";
    let salt = "MDEyMzQ1Njc4OWFiY2RlZg";
    let tag = "NZM9HruDlpv+svG+Wf5n9elNeM0OXMUpS4QH8zsitbM";
    let sha256 = "r6nzC5LUC0uVXFw52gWstJ181ms.XFW71j20yui2zG7";
    let argon2 = |costs: &str| format!("$argon2id$v=19${costs}${salt}${tag}");
    for (text, expected) in [
        ("", "plain text"),
        ("hush", "plain text"),
        ("5$hush", "plain text"),
        ("apr1$hush", "plain text"),
        ("2y$10$hush", "plain text"),
        ("\u{e4}$\u{e4}", "plain text"),
        ("rOioh4Wh3Qw7.", "DES"),
        ("_J9..rasmBYk8r9AiWNc", "this kind"),
        ("$", "this kind"),
        ("$$", "this kind"),
        ("$1$ab$cd", "this kind"),
        ("$y$j9T$hush$hush", "this kind"),
        ("{SSHA}hush", "this kind"),
        ("{PLAIN}hush", "this kind"),
        (&format!("$2x$10${bcrypt}"), "known flaw"),
        (
            &format!("$2y$15${bcrypt}"),
            "cost 15 is out of range, 4 to 14",
        ),
        (&format!("$2y$31${bcrypt}"), "cost 31"),
        (&format!("$2y$03${bcrypt}"), "cost 3"),
        (&format!("$2y$+9${bcrypt}"), "malformed"),
        (&format!("$2y$10${}", &bcrypt[1..]), "malformed"),
        (&format!("$2y$10$\u{e4}{}", &bcrypt[2..]), "malformed"),
        ("$2y$", "malformed"),
        ("$2y$1\u{e4}", "malformed"),
        ("$apr1$", "malformed"),
        ("$apr1$$eup.HOtZcQ/VrnApBM3rR/", "malformed"),
        ("$apr1$123456789$eup.HOtZcQ/VrnApBM3rR/", "malformed"),
        ("$apr1$8sFt66rZ$eup.HOtZcQ/VrnApBM3rR", "malformed"),
        (
            "$apr1$rounds=9000$8sFt66rZ$eup.HOtZcQ/VrnApBM3rR/",
            "malformed",
        ),
        (&format!("$5$rounds=100001$ab${sha256}"), "1000 to 100000"),
        (&format!("$5$rounds=999$ab${sha256}"), "1000 to 100000"),
        (
            &format!("$6$rounds=99999999999$ab${sha256}"),
            "1000 to 100000",
        ),
        (&format!("$5$rounds=+5000$ab${sha256}"), "1000 to 100000"),
        (&format!("$5$rounds=5000${sha256}"), "malformed"),
        (&format!("$5$ab${sha256}=="), "malformed"),
        (&format!("$6$ab${sha256}"), "malformed"),
        ("{SHA}", "malformed"),
        ("{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ", "malformed"),
        (&argon2("m=65537,t=1,p=1"), "m up to 65536"),
        (&argon2("m=4294967295,t=1,p=1"), "m up to 65536"),
        (&argon2("m=4294967296,t=1,p=1"), "malformed"),
        (&argon2("m=64,t=5,p=1"), "t up to 4"),
        (&argon2("m=64,t=0,p=1"), "t up to 4"),
        (&argon2("m=64,t=1,p=5"), "p up to 4"),
        (&argon2("m=64,t=1,p=4294967295"), "p up to 4"),
        (&argon2("m=7,t=1,p=1"), "out of range"),
        (&argon2("t=1,m=64,p=1"), "malformed"),
        (&argon2("m=64,t=1,p=1,keyid=a"), "malformed"),
        (&argon2("m=64,t=1"), "malformed"),
        ("$argon2id$", "malformed"),
        (
            &format!("$argon2id$v=16$m=64,t=1,p=1${salt}${tag}"),
            "version 19",
        ),
        (&format!("$argon2id$m=64,t=1,p=1${salt}${tag}"), "malformed"),
        (
            &format!("$argon2id$v=19$m=64,t=1,p=1$YQ${tag}"),
            "malformed",
        ),
        (
            &format!("$argon2id$v=19$m=64,t=1,p=1${salt}$YQ"),
            "malformed",
        ),
        (
            &format!("$argon2i$v=19$m=64,t=1,p=1${salt}${tag}"),
            "only argon2id",
        ),
    ] {
        let error = PasswordHash::parse(text).expect_err(text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
        assert!(error.contains("htpasswd -nB"), "{text}: {error}");
        for part in ["hush", &bcrypt[5..], sha256, tag, salt, "HOtZcQ"] {
            assert!(!error.contains(part), "{text}: {error}");
        }
    }
    for text in [
        format!("$2y$14${bcrypt}"),
        format!("$5$rounds=100000$ab${sha256}"),
        argon2("m=65536,t=4,p=4"),
    ] {
        PasswordHash::parse(&text).unwrap();
    }
}
