import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import type { Pool } from 'undici';
import { ALICE, HARD, SPENT } from '../proxy.ts';
import { cutsOf, piecesOf, randomOf } from './random.ts';
import { type ExpectedRequest, expectedRequest } from './referenceRequest.ts';
import { type FuzzRequest, fuzzRequest } from './requests.ts';
import { type FuzzResponse, fuzzResponse } from './responses.ts';

const COMPRESS = { gzip: gzipSync, deflate: deflateSync, br: brotliCompressSync };

/** Other forms of a request, which do not change what it asks. */
const FORMS = ['origin', 'chunks', 'gzip'] as const;

export type OtherForm = (typeof FORMS)[number];

/** A request and its answer, both generated. */
export interface Case {
  readonly at: number;
  readonly request: FuzzRequest;
  readonly expected: ExpectedRequest;
  readonly response: FuzzResponse;
  readonly token: string;
  readonly form: OtherForm;
  /** Where the bytes of the request and of the answer are cut into pieces. */
  readonly cuts: { readonly request: readonly number[]; readonly response: readonly number[] };
}

export interface Received {
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Buffer;
}

export function caseOf(seed: number, at: number): Case {
  const random = randomOf(seed + at);
  const request = fuzzRequest(random);
  const expected = expectedRequest(request);
  const response = fuzzResponse(random, request.operation, expected.stream);
  // Most pieces are one: a socket brings what is written soon after in one piece too.
  const some = (length: number) => (random.chance(0.2) ? cutsOf(random, length).slice(0, 20) : []);
  return {
    at,
    request,
    expected,
    response,
    token: random.pick([ALICE, ALICE, ALICE, SPENT, SPENT, HARD]),
    form: random.pick(FORMS),
    cuts: { request: some(request.bytes.length), response: some(response.bytes.length) },
  };
}

export async function send(client: Pool, one: Case, id: string, form: 'plain' | OtherForm): Promise<Answer> {
  const { request, token, cuts } = one;
  const bytes = form === 'gzip' ? gzipSync(request.bytes) : request.bytes;
  const pieces = piecesOf(bytes, form === 'gzip' ? [] : cuts.request);
  const headers: Record<string, string> = {
    authorization: `Bearer ${token}`,
    'content-type': 'application/json',
    'x-mock-case': id,
    ...(form === 'gzip' && { 'content-encoding': 'gzip' }),
    ...(form === 'origin' && { origin: 'https://page.example' }),
    ...(form !== 'chunks' && { 'content-length': String(bytes.length) }),
  };
  const whole = pieces.length === 1 && form !== 'chunks';
  const {
    statusCode,
    headers: answered,
    body,
  } = await client.request({
    method: 'POST',
    path: request.path,
    headers,
    body: whole ? bytes : Readable.from(slowly(pieces)),
  });
  return { status: statusCode, headers: answered, body: Buffer.from(await body.arrayBuffer()) };
}

async function* slowly(pieces: readonly Buffer[]): AsyncGenerator<Buffer> {
  for (const piece of pieces) {
    yield piece;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

export interface Vendor {
  readonly url: string;
  /** By the id that a request carries. */
  readonly answers: Map<string, Case>;
  readonly received: Map<string, Received>;
  close(): Promise<void>;
}

/** A vendor that gives each request the answer that was generated for it, in pieces. */
export async function startVendor(): Promise<Vendor> {
  const answers = new Map<string, Case>();
  const received = new Map<string, Received>();
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => void chunks.push(chunk));
    request.on('end', () => {
      const id = String(request.headers['x-mock-case']);
      const one = answers.get(id);
      if (!one || received.has(id)) return void response.writeHead(599).end('unexpected');
      received.set(id, { headers: request.headers, body: Buffer.concat(chunks) });
      void answerSlowly(response, one);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    answers,
    received,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function answerSlowly(response: ServerResponse, { response: answer, cuts }: Case): Promise<void> {
  const { status, contentType, encoding, bytes } = answer;
  const encoded = encoding ? COMPRESS[encoding](bytes) : bytes;
  response.writeHead(status, {
    'content-type': contentType,
    ...(encoding && { 'content-encoding': encoding }),
  });
  const pieces = piecesOf(
    encoded,
    cuts.response.filter((cut) => cut < encoded.length),
  );
  for (const piece of pieces) {
    response.write(piece);
    await new Promise((resolve) => setImmediate(resolve));
  }
  response.end();
}
