//! CGI programs, which an fcgiwrap of each tenant runs as the tenant's user.

use std::collections::BTreeMap;

use anyhow::Result;
use futures_util::future::join_all;
use http::Request;

use super::client::{Client, Protocol, whole};
use super::counts::{Counts, Fault, Judged};
use super::setting::{Setting, TENANTS};

/// Asks both tenants' programs over both protocols at the same time.
pub(super) async fn run(setting: &Setting, requests: usize, counts: &Counts) -> Result<()> {
    let kinds = Protocol::BOTH.iter().flat_map(|protocol| {
        let tenants = TENANTS.iter();
        tenants.map(move |tenant| (tenant, *protocol))
    });
    let before = counts.requests();
    let asking = kinds
        .zip(FIRST..)
        .map(async |((tenant, protocol), number)| {
            let mut client = Client::new(setting, tenant, tenant.cgi, protocol, number);
            for _ in 0..requests {
                let judged = program(&mut client).await;
                counts.note(&client.name(), judged);
            }
        });
    join_all(asking).await;
    let users = TENANTS
        .map(|tenant| tenant.user().to_string())
        .join(" and ");
    println!(
        "{} requests to CGI programs, as the users {users}",
        counts.requests() - before
    );
    Ok(())
}

/// Sends a body to a program, which prints its environment and the body.
async fn program(client: &mut Client<'_>) -> Judged {
    let text = format!("body of {}", client.name());
    let asking = Request::post("/env.cgi/info?a=b").header("proxy", "http://forged.example");
    let answer = client.ask(asking, whole(text.clone().into())).await?;
    let told = String::from_utf8_lossy(&answer.body);
    let Some((environment, body)) = told.split_once("--\n") else {
        return Err(Fault::Wrong(format!("told {told}")));
    };
    let environment: BTreeMap<_, _> = environment
        .lines()
        .filter_map(|line| line.split_once('='))
        .collect();
    let (length, nonce) = (text.len().to_string(), answer.nonce.as_str());
    let right = [
        ("PATH_INFO", "/info"),
        ("QUERY_STRING", "a=b"),
        ("SCRIPT_NAME", "/env.cgi"),
        ("CONTENT_LENGTH", length.as_str()),
        ("SERVER_NAME", client.tenant.cgi),
        ("HTTP_X_NONCE", nonce),
    ];
    let missing = right
        .iter()
        .find(|(name, value)| environment.get(name) != Some(value));
    if answer.status != 200 || body != text || missing.is_some() {
        return Err(Fault::Wrong(format!(
            "{} {missing:?}: {told}",
            answer.status
        )));
    }
    match environment.get("HTTP_PROXY") {
        None => Ok(()),
        Some(forged) => Err(Fault::Wrong(format!("HTTP_PROXY={forged}"))),
    }
}

/// Number of the first client.
const FIRST: usize = 4000;
