import {
  fetchAwsCredentials,
  fetchAzureToken,
  fetchClientToken,
  fetchGoogleToken,
  IdentityError,
} from '@weighbridge/identities';
import { NOT_PUBLIC } from '@weighbridge/runtime';
import { outgoingRequest, readStart } from '../../shared/outgoingRequest.ts';
import type { Identity } from './connectors.service.ts';

export interface Probe {
  readonly baseUrl: string;
  readonly dialect: 'openai' | 'anthropic';
  /** Empty if the upstream needs none. */
  readonly credential: string;
  /** What an access token is got with, if there is no credential. */
  readonly identity?: Identity | undefined;
  readonly allowPrivateAddress: boolean;
  readonly timeoutMs: number;
}

export interface ProbeResult {
  readonly ok: boolean;
  /** The upstream's; null if it sent no response. */
  readonly status: number | null;
  readonly latency_ms: number;
  readonly message: string;
}

const MAX_BODY_BYTES = 8_192;
const MAX_EXCERPT = 200;
/** The API version that Anthropic requires: https://docs.anthropic.com/en/api/versioning */
const ANTHROPIC_VERSION = '2023-06-01';

/** Tests a credential by listing the upstream's models. Never rejects, and never shows the credential. */
export async function probe(options: Probe): Promise<ProbeResult> {
  const began = performance.now();
  const done = (ok: boolean, status: number | null, message: string): ProbeResult => ({
    ok,
    status,
    latency_ms: Math.round(performance.now() - began),
    message,
  });
  try {
    if (options.identity?.kind === 'aws') return await probeAws(options.identity, done);
    if (options.identity?.kind === 'google')
      return await probeGoogle(options.identity, options.timeoutMs, done);
    if (isProxysOwn(options.identity)) return done(false, null, ONLY_PROXIES);
    const token = options.identity && (await tokenOf(options.identity, options.timeoutMs));
    const { status, body } = await get(options, token);
    if (status >= 200 && status < 300) return done(true, status, 'The upstream accepted the credential.');
    const message = excerpt(body, token ?? options.credential);
    return done(false, status, `${verdict(status)}${message && ` Its message: ${message}`}`);
  } catch (error) {
    if (error instanceof IdentityError) return done(false, null, error.message);
    return done(false, null, failure(error, options.timeoutMs));
  }
}

/** The environment, pod or machine of proxies. */
function isProxysOwn(identity: Identity | undefined): boolean {
  return identity?.kind === 'azure' && identity.clientSecret === '';
}

type AwsProbe = Extract<Identity, { kind: 'aws' }>;
type Done = (ok: boolean, status: number | null, message: string) => ProbeResult;

const ONLY_PROXIES = "The proxies' own identity is used, which the control plane can't test.";

/** Whether there are credentials. The identity of pods is that of the proxy, so only theirs says what it may do. */
async function probeAws(identity: AwsProbe, done: Done): Promise<ProbeResult> {
  if (!identity.accessKeyId) {
    return done(false, null, ONLY_PROXIES);
  }
  await fetchAwsCredentials(identity);
  return done(
    true,
    null,
    'There are credentials. Whether AWS accepts them for a model, a request to it shows.',
  );
}

/** Whether Google issues a token for the key of the service account. */
async function probeGoogle(
  identity: Extract<Identity, { kind: 'google' }>,
  timeoutMs: number,
  done: Done,
): Promise<ProbeResult> {
  if (!identity.credentials) return done(false, null, ONLY_PROXIES);
  const { allowPrivateAddress } = identity;
  await fetchGoogleToken(identity, { allowPrivateAddress, timeoutMs });
  return done(
    true,
    null,
    'Google issues tokens for it. Whether they are for a model, a request to it shows.',
  );
}

async function tokenOf(
  identity: Extract<Identity, { kind: 'oauth' | 'azure' }>,
  timeoutMs: number,
): Promise<string> {
  const { allowPrivateAddress } = identity;
  const options = { allowPrivateAddress, timeoutMs };
  const { value } = await (identity.kind === 'azure'
    ? fetchAzureToken(identity, { ...options, env: {} })
    : fetchClientToken(identity, options));
  return value;
}

async function get(options: Probe, token: string | undefined): Promise<{ status: number; body: string }> {
  const response = await outgoingRequest({
    url: new URL(`${options.baseUrl}/models`),
    headers: headersFor(options, token),
    allowPrivateAddress: options.allowPrivateAddress,
    signal: AbortSignal.timeout(options.timeoutMs),
  });
  return { status: response.statusCode ?? 0, body: await readStart(response, MAX_BODY_BYTES) };
}

function headersFor({ dialect, credential }: Probe, token: string | undefined): Record<string, string> {
  const common = { accept: 'application/json' };
  if (dialect === 'anthropic') {
    return {
      ...common,
      'anthropic-version': ANTHROPIC_VERSION,
      ...(credential && { 'x-api-key': credential }),
      ...(token && { authorization: `Bearer ${token}` }),
    };
  }
  const bearer = token ?? credential;
  return { ...common, ...(bearer && { authorization: `Bearer ${bearer}` }) };
}

function verdict(status: number): string {
  if (status === 401 || status === 403) return 'The upstream rejected the credential.';
  if (status === 404) return 'The upstream has no list of models at this base_url.';
  if (status === 429) return 'The upstream is rate limiting this account. Try again later.';
  if (status >= 300 && status < 400)
    return 'The upstream redirects to another address, which is not followed. Check base_url.';
  return `The upstream answered with ${status}.`;
}

function failure(error: unknown, timeoutMs: number): string {
  const { name, code } = error as NodeJS.ErrnoException;
  if (code === NOT_PUBLIC) {
    return 'The host resolves to an address that is not public. To allow it, add the host to ALLOWED_UPSTREAM_HOSTS.';
  }
  if (name === 'TimeoutError' || name === 'AbortError')
    return `The upstream did not answer within ${timeoutMs} ms.`;
  return `The upstream could not be reached${typeof code === 'string' ? ` (${code})` : ''}.`;
}

/** The message of an error response: shortened, without control characters or anything that looks like the credential. */
export function excerpt(body: string, credential: string): string {
  const words = (errorMessage(body) ?? '')
    .replace(/[\s\p{C}]+/gu, ' ')
    .trim()
    .split(' ')
    .map((word) => (holdsPartOf(credential, word) ? '[removed]' : word));
  const text = words.join(' ');
  return text.length <= MAX_EXCERPT ? text : `${text.slice(0, MAX_EXCERPT)}…`;
}

/** The message of an error in the vendors' usual shapes; undefined for any other body, such as HTML. */
function errorMessage(body: string): string | undefined {
  try {
    const { error, message } = JSON.parse(body) as {
      error?: { message?: unknown } | string;
      message?: unknown;
    };
    const text = typeof error === 'object' ? error?.message : (error ?? message);
    return typeof text === 'string' ? text : undefined;
  } catch {
    return undefined;
  }
}

/** Vendors often repeat a key, in full or masked in the middle. */
function holdsPartOf(credential: string, word: string): boolean {
  if (/\*\*|\.\.\.|…|x{4}/i.test(word)) return true;
  const length = Math.min(RECOGNISABLE, credential.length);
  if (length === 0) return false;
  for (let at = 0; at + length <= word.length; at++) {
    if (credential.includes(word.slice(at, at + length))) return true;
  }
  return false;
}

/** A match of this many characters is not a coincidence. */
const RECOGNISABLE = 6;
