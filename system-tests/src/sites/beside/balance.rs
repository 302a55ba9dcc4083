//! Which server of an upstream answers: any, that of the client, or that of a cookie.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};

use super::{Asked, Row, tell};
use crate::hosting::Client;

/// Row whose upstream tells its own address.
pub(super) const ROW: u8 = 22;

/// Checks that requests are spread over both servers, that a client keeps its server, and so
/// does a cookie.
pub(super) async fn check(client: &Client, row: &Row) -> Result<()> {
    let any = [("GET", "/server/any", NONE); REQUESTS];
    let spread = servers(client, row, &any).await?;
    ensure!(spread.len() == 2, "all requests go to {spread:?}");
    let own = [("GET", "/server/client", NONE); REQUESTS];
    let kept = servers(client, row, &own).await?;
    ensure!(kept.len() == 1, "a client's requests go to {kept:?}");
    let mut of_cookies = BTreeSet::new();
    for cookie in COOKIES {
        let own = [("GET", "/server/cookie", cookie); 3];
        let mut kept = servers(client, row, &own).await?;
        ensure!(kept.len() == 1, "a cookie's requests go to {kept:?}");
        of_cookies.append(&mut kept);
    }
    ensure!(of_cookies.len() == 2, "all cookies go to {of_cookies:?}");
    Ok(())
}

/// Returns the addresses of the servers that answer.
async fn servers(client: &Client, row: &Row, asked: &[Asked]) -> Result<BTreeSet<String>> {
    let mut servers = BTreeSet::new();
    for asked in asked {
        let told = tell(client, row, asked).await?;
        ensure!(told.status == 200, "{asked:?}: {told:?}");
        servers.insert(String::from_utf8(told.body)?);
    }
    Ok(servers)
}

const REQUESTS: usize = 40;
const NONE: &[(&str, &str)] = &[];
/// So many that both servers have one.
const COOKIES: [&[(&str, &str)]; 16] = [
    &[("cookie", "server=a")],
    &[("cookie", "server=b")],
    &[("cookie", "server=c")],
    &[("cookie", "server=d")],
    &[("cookie", "server=e")],
    &[("cookie", "server=f")],
    &[("cookie", "server=g")],
    &[("cookie", "server=h")],
    &[("cookie", "server=i")],
    &[("cookie", "server=j")],
    &[("cookie", "server=k")],
    &[("cookie", "server=l")],
    &[("cookie", "server=m")],
    &[("cookie", "server=n")],
    &[("cookie", "server=o")],
    &[("cookie", "server=p")],
];
