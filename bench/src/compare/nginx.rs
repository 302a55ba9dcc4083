//! Configuration of nginx: a file with what all cases share, and the hosts of a case.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::codings;
use super::php;
use super::rows::Texts;
use super::upstreams::KEPT;
use crate::fixtures::{Folder, host_name};
use crate::upstream;

/// Source of nginx's certificates.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Certificates {
    /// A `server` block for each of the first hosts, all read at the start.
    Preloaded(usize),
    /// A `server` block whose file names hold `$ssl_server_name`, read in each
    /// handshake.
    Variable,
    /// A `server` block that asks Redis on this port from Lua with LuaSocket,
    /// which blocks.
    Blocking(u16),
    /// As `Variable`, with nginx's cache of certificates; nginx 1.27.4 or later.
    CachedVariable,
    /// A `server` block that asks Redis on this port from Lua with cosockets, which do not
    /// block; whether the worker caches the pairs.
    Cosocket(u16, bool),
}

#[derive(Debug)]
pub(crate) struct Nginx<'a> {
    pub(crate) fixture: Folder<'a>,
    pub(crate) certificates: Certificates,
    pub(crate) site: &'a Path,
    pub(crate) scratch: &'a Path,
    pub(crate) address: SocketAddr,
    pub(crate) workers: usize,
    pub(crate) file_cache: bool,
    /// Port of the upstreams, and their number; None for files.
    pub(crate) upstreams: Option<(u16, usize)>,
    /// Folder of php-fpm and its script, and whether connections are kept; None for none.
    pub(crate) scripts: Option<(PathBuf, bool)>,
    /// File of users whose password each request needs, if there is one.
    pub(crate) users: Option<PathBuf>,
    /// Text that clients get in gzip, if there is one.
    pub(crate) texts: Option<Texts>,
    pub(crate) http2: bool,
    /// Key exchange groups, in OpenSSL's names.
    pub(crate) groups: &'static str,
}

impl Nginx<'_> {
    pub(crate) fn config(&self) -> String {
        let modules = match self.certificates {
            Certificates::Blocking(_) | Certificates::Cosocket(..) => MODULES,
            _ => "",
        };
        let text = FRAME
            .replace("{modules}", modules)
            .replace("{scratch}", &self.scratch.display().to_string())
            .replace("{groups}", self.groups)
            .replace("{workers}", &self.workers.to_string())
            .replace("{site}", &self.site.display().to_string());
        text.replace("{http}", &self.http())
    }

    /// Returns what differs between cases: hosts, and what their content needs.
    fn http(&self) -> String {
        let mut text = String::new();
        if self.file_cache {
            text.push_str("    open_file_cache max=1000;\n");
        }
        if self.upstreams.is_some() {
            text.push_str(UPGRADES);
        }
        if let Some(users) = &self.users {
            let users = users.display();
            let _ = writeln!(
                text,
                "    auth_basic bench;\n    auth_basic_user_file {users};"
            );
        }
        if let Some(texts) = self.texts {
            text.push_str(codings::nginx_directives(texts));
        }
        self.add_scripts(&mut text);
        self.add_servers(&mut text);
        text
    }

    fn add_servers(&self, text: &mut String) {
        match self.certificates {
            Certificates::Preloaded(hosts) => {
                for number in 0..hosts {
                    let name = host_name(number);
                    if let Some((folder, _)) = &self.scripts {
                        self.add_server(text, &name, &name);
                        let end = text.rfind('}').unwrap_or(text.len());
                        text.truncate(end);
                        let folder = folder.display();
                        let _ = writeln!(
                            text,
                            "    root {folder};\n\
                             \x20   location ~ \\.html$ {{ fastcgi_pass php; }}\n    }}"
                        );
                    } else if let Some((port, count)) = self.upstreams {
                        let upstream = upstream::address(number % count, port);
                        self.add_proxy(text, number, &name, upstream);
                    } else {
                        self.add_server(text, &name, &name);
                    }
                }
            }
            Certificates::Variable => self.add_server(text, "_", "$ssl_server_name"),
            Certificates::CachedVariable => {
                text.push_str(CERTIFICATE_CACHE);
                self.add_server(text, "_", "$ssl_server_name");
            }
            Certificates::Blocking(port) => {
                text.push_str("    init_by_lua_block { pairs_of = {}; held = {} }\n");
                self.add_script(text, BLOCKING, port);
            }
            Certificates::Cosocket(port, is_cached) => {
                if is_cached {
                    text.push_str(LUA_CACHE);
                }
                self.add_script(text, COSOCKET, port);
            }
        }
    }

    /// Adds a block whose certificates come from a script.
    fn add_script(&self, text: &mut String, script: &str, port: u16) {
        self.add_server(text, "_", &host_name(0));
        let end = text.rfind('}').unwrap_or(text.len());
        text.truncate(end);
        let script = script.replace("PORT", &port.to_string());
        let _ = writeln!(
            text,
            "    ssl_certificate_by_lua_block {{{script}}}\n    }}"
        );
    }

    /// Adds what all hosts with scripts share.
    fn add_scripts(&self, text: &mut String) {
        let Some((folder, keep)) = &self.scripts else {
            return;
        };
        text.push_str(PARAMETERS);
        let socket = php::socket(folder);
        let _ = writeln!(
            text,
            "    upstream php {{\n        server unix:{};",
            socket.display()
        );
        if *keep {
            let _ = writeln!(
                text,
                "        keepalive {KEPT};\n        keepalive_requests 1000000000;"
            );
        }
        text.push_str("    }\n");
        if *keep {
            text.push_str("    fastcgi_keep_conn on;\n");
        }
    }

    /// Adds a host whose requests go to an upstream of its own over connections
    /// that are kept.
    fn add_proxy(&self, text: &mut String, number: usize, name: &str, upstream: SocketAddr) {
        let _ = writeln!(
            text,
            "    upstream u{number} {{\n\
             \x20       server {upstream};\n\
             \x20       keepalive 64;\n\
             \x20       keepalive_requests 1000000000;\n\
             \x20   }}"
        );
        self.add_server(text, name, name);
        let end = text.rfind('}').unwrap_or(text.len());
        text.truncate(end);
        let _ = writeln!(
            text,
            "    location / {{ proxy_pass http://u{number}; }}\n    }}"
        );
    }

    fn add_server(&self, text: &mut String, server_name: &str, stem: &str) {
        let http2 = if self.http2 { " http2" } else { "" };
        let _ = writeln!(
            text,
            "    server {{\n\
             \x20       listen {} ssl{http2};\n\
             \x20       server_name {server_name};\n\
             \x20       ssl_certificate {};\n\
             \x20       ssl_certificate_key {};\n\
             \x20   }}",
            self.address,
            self.fixture.chain(stem).display(),
            self.fixture.key(stem).display(),
        );
    }
}

/// Fields of a proxy as operators set them, kept connections, and WebSockets. An
/// answer that the client reads slowly is not written to the disk.
const UPGRADES: &str = "    map $http_upgrade $connection_upgrade { default upgrade; '' ''; }
    proxy_http_version 1.1;
    proxy_max_temp_file_size 0;
    proxy_set_header Host $host;
    proxy_set_header Upgrade $http_upgrade;
    proxy_set_header Connection $connection_upgrade;
    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    proxy_set_header X-Forwarded-Proto $scheme;
    proxy_set_header X-Forwarded-Host $host;
";

/// Parameters of Debian's `fastcgi.conf`.
const PARAMETERS: &str = "    fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
    fastcgi_param QUERY_STRING $query_string;
    fastcgi_param REQUEST_METHOD $request_method;
    fastcgi_param CONTENT_TYPE $content_type;
    fastcgi_param CONTENT_LENGTH $content_length;
    fastcgi_param SCRIPT_NAME $fastcgi_script_name;
    fastcgi_param REQUEST_URI $request_uri;
    fastcgi_param DOCUMENT_URI $document_uri;
    fastcgi_param DOCUMENT_ROOT $document_root;
    fastcgi_param SERVER_PROTOCOL $server_protocol;
    fastcgi_param REQUEST_SCHEME $scheme;
    fastcgi_param HTTPS $https if_not_empty;
    fastcgi_param GATEWAY_INTERFACE CGI/1.1;
    fastcgi_param SERVER_SOFTWARE nginx/$nginx_version;
    fastcgi_param REMOTE_ADDR $remote_addr;
    fastcgi_param REMOTE_PORT $remote_port;
    fastcgi_param REMOTE_USER $remote_user;
    fastcgi_param SERVER_ADDR $server_addr;
    fastcgi_param SERVER_PORT $server_port;
    fastcgi_param SERVER_NAME $server_name;
    fastcgi_param REDIRECT_STATUS 200;
";

/// Modules at the paths of Debian's packages.
const MODULES: &str = "\
load_module /usr/lib/nginx/modules/ndk_http_module.so;
load_module /usr/lib/nginx/modules/ngx_http_lua_module.so;
";

const FRAME: &str = include_str!("peers/nginx.conf");
const BLOCKING: &str = include_str!("peers/lua-blocking.lua");
const COSOCKET: &str = include_str!("peers/lua-cosocket.lua");
/// Both caches hold as many hosts; the first is the example of nginx's manual.
const CERTIFICATE_CACHE: &str = "    ssl_certificate_cache max=1000 inactive=20s valid=1m;\n";
const LUA_CACHE: &str = "    init_by_lua_block { held = require(\"resty.lrucache\").new(1000) }\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_preloaded_host_has_a_server_block() {
        let mut nginx = Nginx {
            fixture: Folder(Path::new("/f")),
            certificates: Certificates::Preloaded(3),
            site: Path::new("/site"),
            scratch: Path::new("/scratch"),
            address: "127.0.0.1:443".parse().unwrap(),
            workers: 24,
            file_cache: false,
            upstreams: None,
            scripts: None,
            users: None,
            texts: None,
            http2: false,
            groups: "X25519",
        };
        let text = nginx.config();
        assert_eq!(text.matches("listen 127.0.0.1:443 ssl;").count(), 3);
        assert!(text.contains("ssl_certificate_key /f/hosts/h2.example.test.key;"));
        assert!(text.contains("ssl_ecdh_curve X25519;"));
        assert!(text.contains("worker_processes 24;"));
        assert!(!text.contains("auth_basic"));
        assert!(text.contains("root /site;") && text.contains("pid /scratch/nginx.pid;"));
        for name in [
            "{modules}",
            "{scratch}",
            "{groups}",
            "{workers}",
            "{site}",
            "{http}",
        ] {
            assert!(!text.contains(name), "{name}");
        }
        assert!(!text.contains("gzip"));
        nginx.texts = Some(Texts::Compressed);
        assert!(nginx.config().contains("gzip_comp_level 1;"));
        nginx.users = Some("/users".into());
        assert!(nginx.config().contains("auth_basic_user_file /users;"));
        nginx.certificates = Certificates::Variable;
        let text = nginx.config();
        assert!(text.contains("ssl_certificate /f/hosts/$ssl_server_name.crt;"));
        nginx.certificates = Certificates::Blocking(7);
        let text = nginx.config();
        assert!(text.contains("connect(\"127.0.0.1\", 7)"));
        assert_eq!(text.matches('{').count(), text.matches('}').count());
        assert!(!text.contains("ssl_certificate_cache"));
        nginx.certificates = Certificates::CachedVariable;
        let text = nginx.config();
        assert!(text.contains("ssl_certificate_cache max=1000 "));
        assert!(text.contains("ssl_certificate /f/hosts/$ssl_server_name.crt;"));
        nginx.certificates = Certificates::Cosocket(7, false);
        let text = nginx.config();
        assert!(text.contains("connect(\"127.0.0.1\", 7)") && !text.contains("lrucache"));
        assert_eq!(text.matches('{').count(), text.matches('}').count());
        nginx.certificates = Certificates::Cosocket(7, true);
        assert!(nginx.config().contains("lrucache"));
        nginx.certificates = Certificates::Preloaded(3);
        nginx.upstreams = Some((9000, 2));
        let text = nginx.config();
        assert_eq!(text.matches("server 127.9.0.1:9000;").count(), 2);
        assert!(text.contains("proxy_pass http://u2;"));
        assert_eq!(text.matches('{').count(), text.matches('}').count());
        nginx.scripts = Some(("/php".into(), true));
        let text = nginx.config();
        assert_eq!(text.matches("fastcgi_pass php;").count(), 3);
        assert!(text.contains("server unix:/php/php.sock;"));
        assert_eq!(text.matches('{').count(), text.matches('}').count());
    }
}
