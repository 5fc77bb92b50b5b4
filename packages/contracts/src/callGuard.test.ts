import {
  Client,
  credentials,
  Metadata,
  type MethodDefinition,
  Server,
  ServerCredentials,
  type ServerDuplexStream,
  type ServiceError,
} from '@grpc/grpc-js';
import { afterEach, describe, expect, it } from 'vitest';
import { requireToken } from './callGuard.ts';
import { tokenMetadata } from './grpc.ts';

let server: Server;
let client: Client;
afterEach(() => {
  client.close();
  server.forceShutdown();
});

/** A service that counts what reaches it. */
async function serve() {
  const seen = { decoded: 0, handled: 0, refused: [] as string[] };
  const definition = (name: string, isStream: boolean): MethodDefinition<Buffer, Buffer> => ({
    path: `/test.Service/${name}`,
    requestStream: isStream,
    responseStream: isStream,
    requestSerialize: (bytes) => bytes,
    requestDeserialize: (bytes) => {
      seen.decoded++;
      return bytes;
    },
    responseSerialize: (bytes) => bytes,
    responseDeserialize: (bytes) => bytes,
  });
  const methods = { unary: definition('Unary', false), bidi: definition('Bidi', true) };
  const guard = requireToken('secret', (method) => seen.refused.push(method));
  server = new Server({ interceptors: [guard], 'grpc.max_receive_message_length': 16 * 2 ** 20 });
  server.addService(methods, {
    unary: (_call: unknown, callback: (error: null, answer: Buffer) => void) => {
      seen.handled++;
      callback(null, Buffer.from('ok'));
    },
    bidi: (stream: ServerDuplexStream<Buffer, Buffer>) => {
      seen.handled++;
      stream.on('data', (message) => stream.write(message));
      stream.on('end', () => stream.end());
    },
  });
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    ),
  );
  client = new Client(`127.0.0.1:${port}`, credentials.createInsecure());
  const identity = (bytes: Buffer) => bytes;
  const call = (metadata: Metadata, message = Buffer.from('x')): Promise<number | undefined> =>
    new Promise((resolve) =>
      client.makeUnaryRequest(methods.unary.path, identity, identity, message, metadata, (error) =>
        resolve(error?.code),
      ),
    );
  const stream = (metadata: Metadata): Promise<number | string> =>
    new Promise((resolve) => {
      const one = client.makeBidiStreamRequest(methods.bidi.path, identity, identity, metadata);
      one.on('error', (error: ServiceError) => resolve(error.code));
      one.on('data', (answer: Buffer) => {
        one.end();
        resolve(String(answer));
      });
      one.write(Buffer.from('hello'));
    });
  return { seen, call, stream };
}

const UNAUTHENTICATED = 16;

describe('a call without the token', () => {
  it.each([undefined, 'wrong', 'secret2', 'secre'])(
    'is refused before a message is decoded (%s)',
    async (token) => {
      const { seen, call, stream } = await serve();
      const metadata = tokenMetadata(token);
      expect(await call(metadata, Buffer.alloc(14 * 2 ** 20))).toBe(UNAUTHENTICATED);
      expect(await stream(metadata)).toBe(UNAUTHENTICATED);
      expect(seen).toEqual({ decoded: 0, handled: 0, refused: ['Unary', 'Bidi'] });
    },
  );

  it('is refused with the token in another form', async () => {
    const { seen, call } = await serve();
    const bare = new Metadata();
    bare.set('authorization', 'secret');
    expect(await call(bare)).toBe(UNAUTHENTICATED);
    expect(seen.decoded).toBe(0);
  });
});

it('a call with the token is served, up to the limit of a message', async () => {
  const { seen, call, stream } = await serve();
  const metadata = tokenMetadata('secret');
  expect(await call(metadata)).toBeUndefined();
  expect(await stream(metadata)).toBe('hello');
  expect(await call(metadata, Buffer.alloc(17 * 2 ** 20))).toBe(8);
  expect(seen).toEqual({ decoded: 2, handled: 2, refused: [] });
});
