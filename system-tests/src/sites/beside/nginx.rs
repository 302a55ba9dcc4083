//! nginx with a `server` block for each row.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use sekisho_testkit::Key;
use sekisho_testkit::services::free_ports;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use super::{Places, Row};
use crate::hosting::Hosting;

/// Process of nginx; it ends when this is dropped.
pub(super) struct Nginx {
    pub(super) address: SocketAddr,
    /// Address of plain HTTP.
    pub(super) plain: SocketAddr,
    _child: Child,
}

impl Nginx {
    pub(super) async fn start(hosting: &Hosting, rows: &[&Row], places: &Places) -> Result<Self> {
        let folder = hosting.folder().join("nginx");
        fs::create_dir_all(&folder)?;
        let hosts: Vec<String> = rows.iter().map(|row| row.host()).collect();
        let names: Vec<&str> = hosts.iter().map(String::as_str).collect();
        let pair = hosting.ca.issue(&names, Key::P256);
        fs::write(folder.join("chain.pem"), pair.chain_pem())?;
        fs::write(folder.join("key.pem"), pair.key_pem())?;
        fs::write(folder.join("users"), USERS)?;
        let ports = free_ports();
        let blocks: String = rows.iter().map(|row| server(row, ports)).collect();
        let config = places.fill(&CONFIG.replace("SERVERS", &blocks))?;
        let file = folder.join("nginx.conf");
        fs::write(&file, config.replace("SCRATCH", &folder.to_string_lossy()))?;
        let mut child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "/usr/sbin/nginx", "-e", "stderr"])
            .arg("-p")
            .arg(&folder)
            .arg("-c")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(folder.join("error.log"))?)
            .kill_on_drop(true)
            .spawn()
            .context("setpriv, of util-linux")?;
        let [address, plain] = ports.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let begun = Instant::now();
        while TcpStream::connect(address).await.is_err() {
            let said = || fs::read_to_string(folder.join("error.log")).unwrap_or_default();
            ensure!(child.try_wait()?.is_none(), "nginx ended: {}", said());
            ensure!(begun.elapsed() < START, "nginx does not listen");
            sleep(POLL).await;
        }
        Ok(Self {
            address,
            plain,
            _child: child,
        })
    }
}

fn server(row: &Row, [port, plain]: [u16; 2]) -> String {
    let (host, text) = (row.host(), row.nginx);
    format!(
        "server {{ listen 127.0.0.1:{port} ssl; listen 127.0.0.1:{plain}; server_name {host};\n\
         {text}\n}}\n"
    )
}

/// User `ann` with the password `secret`.
const USERS: &str = "ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n";

/// What all blocks share. Redirects name no port, and texts their charset, as ours do.
const CONFIG: &str = "\
user root;
daemon off;
master_process off;
pid SCRATCH/nginx.pid;
error_log stderr warn;
events {}
http {
    access_log off;
    client_body_temp_path SCRATCH/client_body;
    proxy_temp_path SCRATCH/proxy;
    fastcgi_temp_path SCRATCH/fastcgi;
    uwsgi_temp_path SCRATCH/uwsgi;
    scgi_temp_path SCRATCH/scgi;
    types { text/html html htm; text/css css; text/plain txt; }
    charset utf-8;
    charset_types text/css text/plain;
    absolute_redirect off;
    root FOLDER;
    ssl_certificate SCRATCH/chain.pem;
    ssl_certificate_key SCRATCH/key.pem;
    limit_req_zone $binary_remote_addr zone=reqs:1m rate=1r/s;
    upstream least { least_conn; server 127.0.0.1:UPSTREAM; server 127.0.0.2:UPSTREAM; }
    upstream by_client { ip_hash; server 127.0.0.1:UPSTREAM; server 127.0.0.2:UPSTREAM; }
    upstream by_cookie {
        hash $cookie_server;
        server 127.0.0.1:UPSTREAM;
        server 127.0.0.2:UPSTREAM;
    }
    upstream half_dead { server 127.0.0.1:DEAD; server 127.0.0.1:UPSTREAM; }
    server {
        listen UPSTREAM;
        location / { return 200 \"$request_method $request_uri $http_host\"; }
        location /server { return 200 $server_addr; }
        location /app/failing { return 404 \"of its own\"; }
        location /fields { return 200 \"$http_x_name $http_x_who $http_x_fixed\"; }
        location /forwarded {
            return 200 \"$http_x_forwarded_for $http_x_forwarded_proto $http_x_forwarded_host\";
        }
    }
SERVERS}
";
const START: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(10);
