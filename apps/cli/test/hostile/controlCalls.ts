import { type ClientHttp2Session, connect } from 'node:http2';
import { expect } from 'vitest';
import { growthDuring } from './product.ts';
import type { Scene } from './scene.ts';

const CALLS = 4_000;
const CALLS_AT_ONCE = 50;
const UNAUTHENTICATED = '16';

/** No call of the control service without its token is answered, or costs much, or fills the log. */
export async function expectCallsRefused({ product }: Scene): Promise<void> {
  // In one process, there is no port for them that anyone could know.
  if (product.controlPlaneAddress === undefined) return;
  const before = product.output().length;
  // In megabytes: the client's own limit must not be what stops it.
  const session = connect(`http://${product.controlPlaneAddress}`, { maxSessionMemory: 1_024 });
  session.on('error', () => {});
  try {
    for (const call of ['Resolve', 'Lease', 'Watch'])
      expect(await grpcStatus(session, call)).toBe(UNAUTHENTICATED);
    let left = CALLS;
    const worker = async () => {
      while (left-- > 0) expect(await grpcStatus(session, 'Resolve')).toBe(UNAUTHENTICATED);
    };
    await Promise.all(Array.from({ length: CALLS_AT_ONCE }, worker));
    const large = Buffer.alloc(14 * 2 ** 20);
    const growth = await growthDuring(product, 'management', async () => {
      const calls = Array.from({ length: 20 }, () => grpcStatus(session, 'Resolve', large));
      expect(new Set(await Promise.all(calls))).toEqual(new Set([UNAUTHENTICATED]));
    });
    expect(growth).toBeLessThan(128 * 2 ** 20);
  } finally {
    session.destroy();
  }
  const lines = product.output().slice(before).split('\n');
  expect(lines.filter((line) => /CONTROL_PLANE_TOKEN|answer a proxy/.test(line)).length).toBeLessThanOrEqual(
    2,
  );
}

/** Calls a method of the control service without a token; resolves with the status of the call. */
function grpcStatus(session: ClientHttp2Session, call: string, message = Buffer.alloc(0)): Promise<string> {
  const stream = session.request({
    ':method': 'POST',
    ':path': `/weighbridge.v1.ControlService/${call}`,
    'content-type': 'application/grpc',
    te: 'trailers',
  });
  return new Promise((resolve) => {
    let status = '';
    const note = (headers: NodeJS.Dict<string | string[]>) => {
      status = String(headers['grpc-status'] ?? status);
    };
    stream.on('response', note);
    stream.on('trailers', note);
    stream.on('error', () => {});
    stream.on('close', () => resolve(status));
    stream.resume();
    const head = Buffer.alloc(5);
    head.writeUInt32BE(message.length, 1);
    stream.end(Buffer.concat([head, message]));
  });
}
