import { syncBuiltinESMExports } from 'node:module';
import type { Server } from 'node:net';
import tls, { createServer, type TLSSocket } from 'node:tls';
import { generate } from 'selfsigned';
import { afterEach, beforeAll, expect, it } from 'vitest';
import { answerOf, call, startRawServer } from '../../../test/httpCalls.ts';
import { HttpPool } from './httpPool.ts';

const LONG = { connectTimeoutMs: 60_000, firstByteTimeoutMs: 60_000, chunkTimeoutMs: 60_000 };
const { connect } = tls;
const closing: (() => void)[] = [];
let certificate: { readonly cert: string; readonly private: string };

beforeAll(async () => {
  certificate = await generate([{ name: 'commonName', value: 'localhost' }], {
    keyType: 'ec',
    algorithm: 'sha256',
    extensions: [{ name: 'subjectAltName', altNames: [{ type: 2, value: 'localhost' }] }],
  });
});
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

/** As if its certificate were among those that the system trusts. */
function trustCertificate(): void {
  const trusting = (options: tls.ConnectionOptions) => connect({ ...options, ca: certificate.cert });
  tls.connect = trusting as typeof tls.connect;
  syncBuiltinESMExports();
  closing.push(() => {
    tls.connect = connect;
    syncBuiltinESMExports();
  });
}

async function serveTls(answer: (socket: TLSSocket) => string) {
  const { cert, private: key } = certificate;
  const create = (onConnection: (socket: TLSSocket) => void): Server =>
    createServer({ cert, key, ALPNProtocols: ['h2', 'http/1.1'] }, onConnection);
  const server = await startRawServer(
    (socket) => void socket.write(answer(socket as TLSSocket)),
    create as never,
  );
  closing.push(() => server.close());
  const poolOf = (host: string) => {
    const pool = new HttpPool(new URL(`https://${host}:${server.port}`), LONG);
    closing.push(() => pool.destroy());
    return pool;
  };
  return { server, poolOf };
}

it('speaks HTTP/1.1 over TLS, names the server, and resumes its session', async () => {
  trustCertificate();
  const { server, poolOf } = await serveTls((socket) => {
    const said = {
      name: socket.servername,
      protocol: socket.alpnProtocol,
      isResumed: socket.isSessionReused(),
    };
    return answerOf(JSON.stringify(said), 'connection: close\r\n');
  });
  const pool = poolOf('localhost');
  const said = [];
  for (let at = 0; at < 2; at++) said.push(JSON.parse((await call(pool).over).text));
  const expected = { name: 'localhost', protocol: 'http/1.1' };
  expect(said).toEqual([
    { ...expected, isResumed: false },
    { ...expected, isResumed: true },
  ]);
  expect(server.connections).toBe(2);
});

it('sends nothing to a server whose certificate no one vouches for, or is of another name', async () => {
  const { server, poolOf } = await serveTls(() => answerOf('a'));
  expect((await call(poolOf('localhost')).over).error).toMatchObject({ code: 'DEPTH_ZERO_SELF_SIGNED_CERT' });
  trustCertificate();
  expect((await call(poolOf('127.0.0.1')).over).error).toMatchObject({
    code: 'ERR_TLS_CERT_ALTNAME_INVALID',
  });
  expect(server.received.join('')).toBe('');
});
