import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { create } from '@bufbuild/protobuf';
import { type Connector, ConnectorSchema } from '@weighbridge/contracts';
import { AppError } from '@weighbridge/errors';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { noIdentities } from '../../test/identities.ts';
import { RequestBody } from '../formats/requestBody.ts';
import { Cancellation } from './cancellation.ts';
import type { UpstreamResponse } from './httpExchange.ts';
import { upstreamError, wasNeverSent } from './upstreamErrors.ts';
import { createUpstreams, UNUSED_MS, type Upstreams } from './upstreams.ts';

const TIMEOUTS = { connectTimeoutMs: 20_000, firstByteTimeoutMs: 20_000, chunkTimeoutMs: 20_000 };

let nowMs: number;
let upstreams: Upstreams;
let sockets: Set<Socket>;
let connections: number;
let closing: (() => void)[];
beforeEach(() => {
  nowMs = 0;
  upstreams = createUpstreams(TIMEOUTS, noIdentities(), () => nowMs);
  sockets = new Set();
  connections = 0;
  closing = [];
});
afterEach(async () => {
  await upstreams.close();
  for (const socket of sockets) socket.destroy();
  for (const close of closing) close();
});

async function listen(server: Server): Promise<string> {
  server.on('connection', (socket: Socket) => {
    connections++;
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closing.push(() => server.close());
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function signal() {
  let resolve = () => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve: () => resolve() };
}

/** Keeps connections open for longer than a test takes. */
async function startVendor(answer: (request: IncomingMessage, response: ServerResponse) => void) {
  const server = createHttpServer({ keepAliveTimeout: 600_000 }, (request, response) => {
    request.resume();
    answer(request, response);
  });
  return `http://${await listen(server)}/v1`;
}

function connectorAt(baseUrl: string, fields: Partial<Connector> = {}): Connector {
  return {
    ...create(ConnectorSchema, { id: 'con_1', provider: 'mock', baseUrl, allowPrivateAddress: true }),
    ...fields,
  };
}

async function send(
  connector: Connector,
  {
    onDispatch = () => {},
    cancellation = new Cancellation(),
  }: { readonly onDispatch?: () => Promise<void> | void; readonly cancellation?: Cancellation } = {},
) {
  const permit = upstreams.acquirePermit(connector);
  try {
    await onDispatch();
  } catch (error) {
    permit.release();
    throw error;
  }
  const request = {
    path: '/x',
    method: 'POST' as const,
    headers: [],
    body: new RequestBody([Buffer.from('{}')]),
  };
  return await permit.send(request, cancellation);
}

async function readBody({ body }: UpstreamResponse): Promise<string> {
  let text = '';
  await body.forEachChunk((chunk) => {
    text += chunk;
    return undefined;
  });
  return text;
}

describe('when a connector is edited', () => {
  it('a request with a permit is still sent, however long it waited', async () => {
    const before = connectorAt(await startVendor((_request, response) => response.end('ok')));
    const after = { ...before, chunkTimeoutMs: 10_000 };
    const waited = send(before, {
      onDispatch: async () => {
        nowMs += 2 * UNUSED_MS;
        await readBody(await send(after));
      },
    });
    expect(await readBody(await waited)).toBe('ok');
  });

  it('a late request with the old settings does not close the new connections', async () => {
    const before = connectorAt(await startVendor((_request, response) => response.end('ok')));
    const after = { ...before, chunkTimeoutMs: 10_000 };
    for (const connector of [before, after, before, after, before, after])
      await readBody(await send(connector));
    expect(connections).toBe(2);
  });

  it('requests in flight finish, and unused old connections are closed', async () => {
    let end = () => {};
    const before = connectorAt(
      await startVendor((_request, response) => {
        if (connections > 1) return void response.end('ok');
        response.write('begun, ');
        end = () => response.end('ended');
      }),
    );
    const after = { ...before, chunkTimeoutMs: 10_000 };
    const answer = await send(before);
    nowMs += 2 * UNUSED_MS;
    await readBody(await send(after));
    expect(sockets.size).toBe(2);
    end();
    expect(await readBody(answer)).toBe('begun, ended');
    await readBody(await send(after));
    await expect.poll(() => sockets.size).toBe(1);
    expect(connections).toBe(2);
  });
});

describe('a request that was never sent', () => {
  const left = new Error('left');
  const failureOf = (sent: Promise<unknown>) =>
    sent.then(
      () => undefined,
      (error: unknown) => error,
    );

  it('is recognized where it was cancelled before there was a connection', async () => {
    // It accepts connections, and never answers the TLS handshake.
    const connected = signal();
    const silent = connectorAt(`https://${await listen(createServer(() => connected.resolve()))}/v1`);
    const cancellation = new Cancellation();
    const failure = failureOf(send(silent, { cancellation }));
    await connected.promise;
    cancellation.cancel(left);
    expect(wasNeverSent(await failure)).toBe(true);

    const early = new Cancellation();
    expect(
      wasNeverSent(
        await failureOf(send(silent, { cancellation: early, onDispatch: () => early.cancel(left) })),
      ),
    ).toBe(true);
  });

  it('is recognized where the connection is refused, or the pool was closed', async () => {
    const refused = await failureOf(send(connectorAt('http://127.0.0.1:1/v1')));
    expect(wasNeverSent(refused)).toBe(true);
    expect(upstreamError(refused, 'mock').message).toBe('The vendor mock could not be reached.');
    const closed = await failureOf(
      send(connectorAt('http://127.0.0.1:1/v1'), { onDispatch: () => upstreams.close() }),
    );
    expect(wasNeverSent(closed)).toBe(true);
  });

  it('is not one that the vendor received', async () => {
    const received = signal();
    const vendor = connectorAt(await startVendor(() => received.resolve()));
    const cancellation = new Cancellation();
    const failure = failureOf(send(vendor, { cancellation }));
    await received.promise;
    cancellation.cancel(left);
    expect(await failure).toBe(left);
    expect(wasNeverSent(await failure)).toBe(false);
  });

  it('gets the reason of the shutdown as its error', async () => {
    const cancellation = new Cancellation();
    const ending = new AppError('unavailable', 'shutting_down', 'The service is shutting down.');
    const onDispatch = () => cancellation.cancel(ending);
    const failure = await failureOf(send(connectorAt('http://127.0.0.1:1/v1'), { cancellation, onDispatch }));
    expect(wasNeverSent(failure)).toBe(true);
    expect(upstreamError(failure, 'mock')).toBe(ending);
  });
});
