import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { listenLocally } from '../shared/listenLocally.ts';
import { type AwsAccount, sigV4Fault } from './sigV4.ts';

export interface S3Call {
  readonly method: string;
  /** Of a list: its prefix. */
  readonly key: string;
}

/** How a bucket fails a call. */
export type S3Fault =
  /** Overloaded, as it answers then. */
  | 'slow down'
  /** Half of the request or response passes, then the connection ends. */
  | 'cut'
  /** The connection stays, and nothing comes. */
  | 'silent'
  /** A byte now and then. */
  | 'slow'
  /** No right to the bucket. */
  | 'denied';

export interface S3Options {
  readonly bucket: string;
  readonly region: string;
  readonly accounts: readonly AwsAccount[];
}

/** A bucket, strict: it stores what was signed, or nothing. */
export interface S3 {
  readonly url: string;
  readonly objects: Map<string, Buffer>;
  /** What was called, in order, with the status. */
  readonly calls: string[];
  /** Decides how a call fails; undefined: it does not. */
  fault: (call: S3Call) => S3Fault | undefined;
  close(): Promise<void>;
}

/** A page of a list, far fewer than AWS's 1,000. */
const MAX_KEYS = 3;
const ERRORS: Readonly<Record<string, number>> = {
  AccessDenied: 403,
  BadDigest: 400,
  MissingContentLength: 411,
  NoSuchBucket: 404,
  NoSuchKey: 404,
  SignatureDoesNotMatch: 403,
  SlowDown: 503,
  XAmzContentSHA256Mismatch: 400,
};

/** Starts it on a free port of the loopback interface, with the bucket in the path. */
export async function startS3({ bucket, region, accounts }: S3Options): Promise<S3> {
  const s3 = {
    objects: new Map<string, Buffer>(),
    calls: [] as string[],
    fault: (_: S3Call): S3Fault | undefined => undefined,
  };

  function answer(
    request: IncomingMessage,
    key: string | undefined,
    body: Buffer,
    response: ServerResponse,
  ): string | number {
    const { method = '', url = '', headers } = request;
    const sent = createHash('sha256').update(body).digest('hex');
    if (headers['x-amz-content-sha256'] !== sent) return 'XAmzContentSHA256Mismatch';
    const call = { method, url, headers, body };
    if (sigV4Fault(call, accounts, { service: 's3', region, nowMs: Date.now() }))
      return 'SignatureDoesNotMatch';
    if (key === undefined) return 'NoSuchBucket';
    if (method === 'PUT') {
      if (headers['content-length'] === undefined) return 'MissingContentLength';
      s3.objects.set(key, body);
      return end(response, 200, '');
    }
    if (method === 'DELETE') {
      s3.objects.delete(key);
      return end(response, 204, '');
    }
    if (key === '') return list(new URL(url, 'http://s3').searchParams, response);
    const found = s3.objects.get(key);
    if (!found) return 'NoSuchKey';
    const etag = `"${createHash('md5').update(found).digest('hex')}"`;
    if (headers['if-none-match'] === etag) return end(response, 304, '');
    response.setHeader('etag', etag);
    return end(response, 200, found);
  }

  function list(query: URLSearchParams, response: ServerResponse): number {
    const after = query.get('continuation-token') ?? '';
    const matching = [...s3.objects.keys()].filter((key) => key.startsWith(query.get('prefix') ?? '')).sort();
    const rest = matching.filter((key) => key > after);
    const page = rest.slice(0, MAX_KEYS);
    const more = rest.length > page.length;
    const contents = page.map((key) => `<Contents><Key>${key}</Key></Contents>`).join('');
    const next = more ? `<NextContinuationToken>${page.at(-1)}</NextContinuationToken>` : '';
    return end(
      response,
      200,
      `<ListBucketResult><IsTruncated>${more}</IsTruncated>${next}${contents}</ListBucketResult>`,
    );
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', url = '' } = request;
    const { pathname, searchParams } = new URL(url, 'http://s3');
    const [, name, ...rest] = decodeURIComponent(pathname).split('/');
    const key = name === bucket ? rest.join('/') : undefined;
    const note = (result: string | number) =>
      void s3.calls.push(`${method} ${key || searchParams.get('prefix') || ''} ${result}`);
    const fault = s3.fault({ method, key: key || (searchParams.get('prefix') ?? '') });
    if (fault) note(fault);
    if (fault === 'silent') return;
    if (fault === 'cut' && method === 'PUT') {
      // Some of it has come by then.
      request.once('data', () => request.socket.destroy());
      return;
    }
    const body = await readWhole(request);
    if (!body) return;
    if (fault === 'slow') return drip(response);
    if (fault === 'cut') return cut(response, s3.objects.get(key ?? '') ?? Buffer.alloc(2));
    const result = FAULTS[fault ?? ''] ?? answer(request, key, body, response);
    if (!fault) note(result);
    if (typeof result === 'string') {
      const text = `<Error><Code>${result}</Code><Message>${url} was refused</Message></Error>`;
      end(response, ERRORS[result] ?? 400, text);
    }
  }

  const http = createServer(
    (request, response) => void serve(request, response).catch(() => response.destroy()),
  );
  const url = `http://127.0.0.1:${await listenLocally(http)}`;
  return Object.assign(s3, {
    url,
    async close() {
      http.closeAllConnections();
      await new Promise<void>((resolve) => http.close(() => resolve()));
    },
  });
}

const FAULTS: Readonly<Record<string, string>> = { 'slow down': 'SlowDown', denied: 'AccessDenied' };

function end(response: ServerResponse, status: number, body: string | Buffer): number {
  response.writeHead(status, status === 304 ? {} : { 'content-length': Buffer.byteLength(body) }).end(body);
  return status;
}

function cut(response: ServerResponse, body: Buffer): void {
  response.writeHead(200, { 'content-length': body.length });
  response.write(body.subarray(0, body.length >> 1), () => response.destroy());
}

function drip(response: ServerResponse): void {
  response.writeHead(200, {});
  const timer = setInterval(() => response.write('x'), 10);
  response.once('close', () => clearInterval(timer));
}

/** Undefined: the connection ended before. */
async function readWhole(request: IncomingMessage): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  } catch {
    return undefined;
  }
  return Buffer.concat(chunks);
}
