import { createReadStream } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { type AwsCredentials, type AwsIdentity, fetchAwsCredentials, signAws } from '@weighbridge/identities';
import { Agent, type Dispatcher, request } from 'undici';
import { ArchiveUnavailableError } from './store.ts';

export interface S3Options {
  readonly bucket: string;
  readonly region: string;
  /** `https://…`, without the bucket. Default: AWS's for the region. */
  readonly endpoint?: string | undefined;
  /** Default: as AWS's SDKs find them. */
  readonly credentials?: Pick<AwsIdentity, 'accessKeyId' | 'secretAccessKey'> | undefined;
  /** How long the bucket may be silent within a call. */
  readonly timeoutMs: number;
  /** Waits between tries of a call that failed for a reason that may pass. */
  readonly retryAfterMs: readonly number[];
}

export interface S3Response {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Dispatcher.ResponseData['body'];
}

interface S3Call {
  readonly method: 'GET' | 'PUT' | 'DELETE';
  /** Undefined: the bucket itself. */
  readonly key?: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  /** The file to send. */
  readonly file?: { readonly path: string; readonly bytes: number; readonly sha256: string };
  /** Of an expected response; others are errors. */
  readonly statuses: readonly number[];
}

const EMPTY_SHA256 = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';
/** Those of a vendor that is overloaded or restarts. */
const PASSING = new Set([408, 429, 500, 502, 503, 504]);
/** Errors and pages of a list are small. */
const MAX_TEXT_BYTES = 4 * 1024 * 1024;
const RENEW_BEFORE_MS = 60_000;
const CONNECTIONS = 8;
/** A call may take as many times as long as the bucket may be silent: some send a byte now and then. */
const CALL_TIMEOUTS = 20;

/** Calls of a bucket that speaks S3, signed by SigV4 with the bucket in the path. Rejects with `ArchiveUnavailableError`. */
export class S3Client {
  readonly #options: S3Options;
  readonly #endpoint: URL;
  readonly #agent: Agent;
  #credentials: { readonly value: Promise<AwsCredentials>; readonly until: number } | undefined;

  constructor(options: S3Options) {
    this.#options = options;
    this.#endpoint = new URL(options.endpoint ?? `https://s3.${options.region}.amazonaws.com`);
    const { timeoutMs } = options;
    this.#agent = new Agent({
      connections: CONNECTIONS,
      connect: { timeout: timeoutMs },
      headersTimeout: timeoutMs,
      bodyTimeout: timeoutMs,
    });
  }

  /** The caller reads the body, or dumps it. */
  async call(call: S3Call): Promise<S3Response> {
    for (const waitMs of [...this.#options.retryAfterMs, undefined]) {
      try {
        const response = await this.#send(call);
        if (call.statuses.includes(response.status)) return response;
        const refusal = await refusalOf(response);
        if (waitMs === undefined || !PASSING.has(response.status)) throw refusal;
      } catch (error) {
        if (error instanceof ArchiveUnavailableError) throw error;
        if (waitMs === undefined) throw unreached(error);
      }
      await sleep(waitMs);
    }
    throw new Error('the last try returns or throws');
  }

  async close(): Promise<void> {
    await this.#agent.destroy();
  }

  async #send({ method, key, query = {}, headers = {}, file }: S3Call): Promise<S3Response> {
    const { bucket, region } = this.#options;
    const base = this.#endpoint.pathname.replace(/\/$/, '');
    const path = encodePath(`${base}/${bucket}${key === undefined ? '' : `/${key}`}`);
    const signature = await signAws(
      {
        method,
        host: this.#endpoint.host,
        path,
        query,
        contentType: undefined,
        body: { sha256: file?.sha256 ?? EMPTY_SHA256 },
      },
      await this.#readCredentials(),
      { service: 's3', region, now: new Date() },
    );
    const response = await request(new URL(path + queryText(query), this.#endpoint), {
      method,
      dispatcher: this.#agent,
      headers: { ...headers, ...signature, ...(file && { 'content-length': String(file.bytes) }) },
      body: file ? createReadStream(file.path) : null,
      signal: AbortSignal.timeout(CALL_TIMEOUTS * this.#options.timeoutMs),
    });
    return { status: response.statusCode, headers: response.headers, body: response.body };
  }

  async #readCredentials(): Promise<AwsCredentials> {
    const { credentials: given, region } = this.#options;
    if (given) return given;
    if (!this.#credentials || this.#credentials.until < Date.now()) {
      const found = fetchAwsCredentials({
        region,
        accessKeyId: '',
        secretAccessKey: '',
        sessionToken: '',
        roleArn: '',
        externalId: '',
      }).catch((error: Error) => {
        this.#credentials = undefined;
        throw new ArchiveUnavailableError(`no credentials for the bucket: ${error.message}`, {
          cause: error,
        });
      });
      const { lifeMs } = await found;
      this.#credentials = {
        value: found.then(({ value }) => value),
        until: Date.now() + Math.max(0, lifeMs - RENEW_BEFORE_MS),
      };
    }
    return await this.#credentials.value;
  }
}

/** A response as text, at most 4 MiB. */
export async function readText({ body }: S3Response): Promise<string> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const piece of body) {
      bytes += (piece as Buffer).length;
      if (bytes > MAX_TEXT_BYTES) throw new ArchiveUnavailableError('the bucket sends more than it may');
      pieces.push(piece as Buffer);
    }
  } catch (error) {
    throw error instanceof ArchiveUnavailableError ? error : unreached(error);
  }
  return Buffer.concat(pieces).toString();
}

/** By status and code alone: a message may repeat what was sent. */
async function refusalOf(response: S3Response): Promise<ArchiveUnavailableError> {
  const text = await readText(response).catch(() => '');
  const [, code = ''] = /<Code>(\w{1,60})<\/Code>/.exec(text) ?? [];
  return new ArchiveUnavailableError(`the bucket answers ${response.status}${code && ` ${code}`}`);
}

export function unreached(error: unknown): ArchiveUnavailableError {
  const { code } = error as { readonly code?: unknown };
  const why = typeof code === 'string' ? ` (${code})` : '';
  return new ArchiveUnavailableError(`the bucket does not answer${why}`, { cause: error });
}

function encodePath(path: string): string {
  return path.split('/').map(encodeText).join('/');
}

function queryText(query: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(query).map(([name, value]) => `${encodeText(name)}=${encodeText(value)}`);
  return pairs.length > 0 ? `?${pairs.join('&')}` : '';
}

/** As the signature encodes it. */
function encodeText(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}
