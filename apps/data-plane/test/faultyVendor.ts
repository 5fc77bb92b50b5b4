import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

/** What happens instead of a response. */
export type Fault =
  | { readonly status: number; readonly retryAfter?: string }
  | 'reset'
  | 'reset after the head'
  | 'stall';

/** A proxy in front of a vendor that injects faults. */
export interface FaultyVendor {
  readonly url: string;
  /** The fault of each request, oldest first; undefined where it went to the vendor. */
  readonly requests: (Fault | undefined)[];
  /** Called for each request. */
  fault: () => Fault | undefined;
  close(): Promise<void>;
}

export async function startFaultyVendor(vendorUrl: string): Promise<FaultyVendor> {
  // Closes no idle connection: on a loaded machine, the client learns of it only after it has sent the next request.
  const server = createServer({ keepAliveTimeout: 600_000 }, async (request, response) => {
    const fault = faulty.fault();
    faulty.requests.push(fault);
    if (fault) {
      request.resume();
      return fail(response, fault);
    }
    const { 'content-length': _length, connection: _connection, ...headers } = request.headers;
    const body = await request.toArray().catch(() => undefined);
    // The proxy gave up before all of it was here.
    if (!body) return;
    const upstream = await fetch(vendorUrl.replace(/\/v1$/, request.url ?? ''), {
      method: request.method ?? 'POST',
      headers: headers as Record<string, string>,
      body: Buffer.concat(body),
    });
    response.writeHead(upstream.status, { 'content-type': upstream.headers.get('content-type') ?? '' });
    // Breaks off where the vendor does.
    await pipeline(Readable.fromWeb(upstream.body as never), response).catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const faulty: FaultyVendor = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    requests: [],
    fault: () => undefined,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  return faulty;
}

function fail(response: ServerResponse, fault: Fault): void {
  if (fault === 'stall') return;
  if (fault === 'reset') return void response.destroy();
  if (fault === 'reset after the head') {
    response.writeHead(200, { 'content-type': 'application/json' }).flushHeaders();
    setTimeout(() => response.destroy(), 5);
    return;
  }
  const { status, retryAfter } = fault;
  response.writeHead(status, {
    'content-type': 'application/json',
    ...(retryAfter && { 'retry-after': retryAfter }),
  });
  response.end(JSON.stringify({ error: { message: `faulty ${status}`, type: 'x', code: 'x' } }));
}
