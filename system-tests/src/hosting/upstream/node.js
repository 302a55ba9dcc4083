// Upstream that notes each request that it parses: node upstream.js PORT LOG [lenient]
// A line is: status, head and body as hexadecimal digits, text. It also echoes what
// comes over WebSocket.
'use strict';
const http = require('http');
const fs = require('fs');
const crypto = require('crypto');

const [port, log, lenient] = process.argv.slice(2);
const out = fs.openSync(log, 'a');
const hex = (bytes, none) => (bytes.length ? bytes.toString('hex') : none);
const note = (status, head, body, text) =>
  fs.writeSync(out, `${status} ${head} ${body} ${String(text).replace(/[\r\n]/g, '?')}\n`);

function headOf(request) {
  const lines = [`${request.method} ${request.url} HTTP/${request.httpVersion}`];
  for (let at = 0; at < request.rawHeaders.length; at += 2) {
    lines.push(`${request.rawHeaders[at]}: ${request.rawHeaders[at + 1]}`);
  }
  return hex(Buffer.from(lines.join('\r\n') + '\r\n\r\n', 'latin1'), '-');
}

const options = { insecureHTTPParser: lenient === 'lenient', maxHeaderSize: 1 << 17, keepAliveTimeout: 600000 };
const server = http.createServer(options, (request, response) => {
  const head = headOf(request);
  const pieces = [];
  let ended = false;
  request.on('data', (piece) => pieces.push(piece));
  request.on('end', () => {
    ended = true;
    const body = Buffer.concat(pieces);
    note(200, head, hex(body, '.'), request.url);
    const text = `${request.method} ${request.url} ${body.length}\n`;
    response.writeHead(200, { 'Content-Type': 'text/plain', 'Content-Length': Buffer.byteLength(text) });
    response.end(text);
  });
  request.on('close', () => ended || note(499, head, '-', request.url));
  request.on('error', () => {});
  response.on('error', () => {});
});

server.on('clientError', (error, socket) => {
  const cut = error.code === 'HPE_INVALID_EOF_STATE' || !String(error.code).startsWith('HPE_');
  // What breaks a request's body is noted with that request.
  if (!cut) note(400, '-', '-', error.code);
  socket.destroy();
});

// RFC 6455: frames of at most 125 bytes are echoed.
server.on('upgrade', (request, socket, first) => {
  if (String(request.headers.upgrade).toLowerCase() !== 'websocket') {
    note(200, headOf(request), '.', 'upgrade');
    socket.end('HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n');
    return;
  }
  const key = request.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
  const accept = crypto.createHash('sha1').update(key).digest('base64');
  socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`);
  note(101, headOf(request), '.', request.url);
  let held = first;
  const take = (bytes) => {
    held = Buffer.concat([held, bytes]);
    for (;;) {
      if (held.length < 6) return;
      const length = held[1] & 0x7f;
      if (length > 125) return socket.destroy();
      if (held.length < 6 + length) return;
      const mask = held.subarray(2, 6);
      const data = Buffer.from(held.subarray(6, 6 + length).map((byte, at) => byte ^ mask[at % 4]));
      const opcode = held[0] & 0x0f;
      held = held.subarray(6 + length);
      if (opcode === 9) socket.write(Buffer.concat([Buffer.from([0x8a, length]), data]));
      if (opcode === 1 || opcode === 2) socket.write(Buffer.concat([Buffer.from([0x80 | opcode, length]), data]));
      if (opcode === 8) return socket.end(Buffer.concat([Buffer.from([0x88, length]), data]));
    }
  };
  socket.on('data', take);
  socket.on('error', () => {});
  take(Buffer.alloc(0));
});

server.requestTimeout = 0;
server.headersTimeout = 0;
server.listen(Number(port), '127.0.0.1', 4096);
