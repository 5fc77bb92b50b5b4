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
  /** The variable or file that the key is from; never the key. */
  readonly keySource: string;
}

const DEFAULT_URL = 'http://127.0.0.1:8080';
/** In the data folder: where `weighbridge up` serves. */
export const URL_FILE = 'url';

/** `--url`, else WEIGHBRIDGE_URL, else that of the service that was started in this folder, else this machine. */
async function serviceUrl(
  env: Env,
  { url }: GlobalOptions,
  readFile: (path: string) => Promise<string>,
): Promise<string> {
  const given = url ?? (env.WEIGHBRIDGE_URL || undefined);
  const text = given ?? (await readFile(join(dataDirOf(env), URL_FILE)).catch(() => DEFAULT_URL)).trim();
  if (URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)) return text.replace(/\/+$/, '');
  // The file is written by this program; another's content is not worth a failure.
  if (given === undefined) return DEFAULT_URL;
  throw new UsageError(
    `${url === undefined ? 'WEIGHBRIDGE_URL' : '--url'} is not an http(s) address: ${text}`,
  );
}

function dataDirOf(env: Env): string {
  return env.WEIGHBRIDGE_DATA_DIR || '.weighbridge';
}

/** The address and the key, or OIDC token: from `--key-file`, else WEIGHBRIDGE_KEY, else the operator key of `weighbridge up`. */
export async function readConnection(
  env: Env,
  options: GlobalOptions,
  readFile: (path: string) => Promise<string>,
): Promise<Connection> {
  const baseUrl = await serviceUrl(env, options, readFile);
  if (options.keyFile === undefined && env.WEIGHBRIDGE_KEY) {
    return {
      baseUrl,
      apiKey: headerValue(env.WEIGHBRIDGE_KEY, 'WEIGHBRIDGE_KEY'),
      keySource: 'WEIGHBRIDGE_KEY',
    };
  }
  const file = options.keyFile ?? join(dataDirOf(env), 'operator-key');
  let content: string;
  try {
    content = await readFile(file);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (options.keyFile === undefined && code === 'ENOENT') {
      throw new UsageError(
        `No key for the service. Set WEIGHBRIDGE_KEY, give a file by --key-file, or run the command in the folder that has ${file}.`,
      );
    }
    throw new UsageError(`The key file ${file} can't be read: ${message}`);
  }
  return { baseUrl, apiKey: headerValue(content, file), keySource: file };
}

/** Refuses a key that can't be sent in a header, without repeating it. */
function headerValue(text: string, source: string): string {
  const key = text.trim();
  if (/^[\x21-\x7e]+$/.test(key)) return key;
  throw new UsageError(`${source} contains no valid key: a key (sk-svc-…) or an OIDC token is one word`);
}
