//! Row of scripts, and a FastCGI server that says what it was asked to run.

use std::io;
use std::net::Ipv4Addr;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use super::{LENGTH, Row};
use crate::hosting::fastcgi::{Request, answer};

pub(super) const ROWS: &[Row] = &[Row {
    number: 19,
    nginx: "root FOLDER/app; index index.php index.html;\n\
            location / { try_files $uri $uri/ /index.php?$args; }\n\
            location ~ \\.php$ {\n\
                fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;\n\
                fastcgi_param QUERY_STRING $query_string;\n\
                fastcgi_param REQUEST_METHOD $request_method;\n\
                fastcgi_param REQUEST_URI $request_uri;\n\
                fastcgi_pass 127.0.0.1:SCRIPTS;\n\
            }\n\
            location = /xmlrpc.php { return 403; }",
    site: r#"{
        "root": "FOLDER/app", "fastcgi": "fastcgi://127.0.0.1:SCRIPTS",
        "try": ["{path}", "/index.php"],
        "paths": [{"path": "/xmlrpc.php", "status": 403}]
    }"#,
    asked: &[
        ("GET", "/", &[]),
        ("GET", "/index.php?a=b", &[]),
        ("GET", "/post.php", &[]),
        ("POST", "/post.php", &[(LENGTH, "500")]),
        ("GET", "/pretty/link?p=1", &[]),
        ("GET", "/style.css", &[]),
    ],
    refused: &[("GET", "/xmlrpc.php", &[]), ("POST", "/xmlrpc.php", &[])],
    ..Row::NONE
}];

/// Starts the FastCGI server, and returns its port.
pub(super) async fn start() -> io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let port = listener.local_addr()?.port();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(run(socket));
        }
    });
    Ok(port)
}

/// Answers the request of a connection.
async fn run(mut socket: TcpStream) -> io::Result<()> {
    let Some(request) = Request::read(&mut socket).await? else {
        return Ok(());
    };
    let params = [
        "REQUEST_METHOD",
        "SCRIPT_FILENAME",
        "QUERY_STRING",
        "REQUEST_URI",
    ];
    let params = params.map(|name| request.param(name)).join("|");
    let text = format!("{params}|{} bytes", request.body.len());
    let length = text.len();
    let output =
        format!("Content-Type: text/html; charset=utf-8\r\nContent-Length: {length}\r\n\r\n{text}");
    socket.write_all(&answer(output.as_bytes())).await
}
