import { join } from 'node:path';
import { UsageError } from './usageError.ts';

export type Env = Readonly<Record<string, string | undefined>>;

export interface GlobalOptions {
  readonly url?: string;
  readonly keyFile?: string;
  readonly json?: boolean;
}

export interface Connection {
  readonly baseUrl: string;
  readonly apiKey: string;
  /** Where the key came from, in words; never the key. */
  readonly keySource: string;
}

const DEFAULT_URL = 'http://127.0.0.1:8080';

/** Where the service is: `--url`, else WEIGHBRIDGE_URL, else this machine. */
function serviceUrl(env: Env, { url }: GlobalOptions): string {
  const text = url ?? (env.WEIGHBRIDGE_URL || DEFAULT_URL);
  if (URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)) return text.replace(/\/+$/, '');
  throw new UsageError(
    `${url === undefined ? 'WEIGHBRIDGE_URL' : '--url'} is not an http(s) address: ${text}`,
  );
}

/** The service and the key, or the token, to call it with: `--key-file`, else WEIGHBRIDGE_KEY, else the operator key of `weighbridge up`. */
export async function connection(
  env: Env,
  options: GlobalOptions,
  readFile: (path: string) => Promise<string>,
): Promise<Connection> {
  const baseUrl = serviceUrl(env, options);
  if (options.keyFile === undefined && env.WEIGHBRIDGE_KEY) {
    return {
      baseUrl,
      apiKey: headerValue(env.WEIGHBRIDGE_KEY, 'WEIGHBRIDGE_KEY'),
      keySource: 'WEIGHBRIDGE_KEY',
    };
  }
  const file = options.keyFile ?? join(env.WEIGHBRIDGE_DATA_DIR || '.weighbridge', 'operator-key');
  let content: string;
  try {
    content = await readFile(file);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (options.keyFile === undefined && code === 'ENOENT') {
      throw new UsageError(
        `No key to call the service with. Set WEIGHBRIDGE_KEY, name a file by --key-file, or run this where ${file} is.`,
      );
    }
    throw new UsageError(`The key file ${file} can't be read: ${message}`);
  }
  return { baseUrl, apiKey: headerValue(content, file), keySource: file };
}

/** A key goes in a header: what can't be sent there is refused in words that do not show it. */
function headerValue(text: string, source: string): string {
  const key = text.trim();
  if (/^[\x21-\x7e]+$/.test(key)) return key;
  throw new UsageError(`${source} holds no key: a key is one word, sk-svc-…, and so is an OIDC token`);
}
