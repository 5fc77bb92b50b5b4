import { createHash, createHmac, type Hash, type Hmac } from 'node:crypto';
import type { AccessToken } from './accessToken.ts';
import { IdentityError } from './identityError.ts';

/** Who a connector is at AWS. What is empty comes from the SDK's default chain: the environment, a profile, IRSA, the pod, IMDS. */
export interface AwsIdentity {
  readonly region: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken: string;
  /** Assumed with the identity above. */
  readonly roleArn: string;
  readonly externalId: string;
}

export interface AwsCredentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string | undefined;
  /** Where they were found, if the SDK says so: for operators. */
  readonly source?: string | undefined;
}

/** What the SDK notes of where it found credentials. */
const SOURCES: Readonly<Record<string, string>> = {
  CREDENTIALS_ENV_VARS: 'its environment',
  CREDENTIALS_ENV_VARS_STS_WEB_ID_TOKEN: 'the token of its pod',
  CREDENTIALS_HTTP: 'the agent of its node',
  CREDENTIALS_IMDS: 'the metadata server of its machine',
  CREDENTIALS_PROFILE: 'a profile',
  CREDENTIALS_PROFILE_STS_WEB_ID_TOKEN: "a profile's token",
};

/** Credentials that do not expire are read again after this time: a profile or a file may change. */
const READ_AGAIN_MS = 15 * 60_000;
/** Of one call to a metadata server, which may hang. */
const METADATA_TIMEOUT_MS = 2_000;
/** Of one call to the Security Token Service. The SDK only warns of a time-out unless it is told to keep it. */
const SERVICE_CALLS = { connectionTimeout: 2_000, requestTimeout: 4_000, throwOnRequestTimeout: true };

/** Names of errors of AWS that another try can't mend. */
const REFUSALS = new Set([
  'AccessDenied',
  'AccessDeniedException',
  'ExpiredToken',
  'ExpiredTokenException',
  'IDPRejectedClaim',
  'InvalidClientTokenId',
  'InvalidIdentityToken',
  'MissingAuthenticationToken',
  'RegionDisabledException',
  'SignatureDoesNotMatch',
  'UnrecognizedClientException',
  'ValidationError',
]);

/** Finds the credentials of an identity. Rejects with an IdentityError. */
export async function fetchAwsCredentials(identity: AwsIdentity): Promise<AccessToken<AwsCredentials>> {
  try {
    const provide = await providerOf(identity);
    const { accessKeyId, secretAccessKey, sessionToken, expiration, $source } = await provide();
    const lifeMs = expiration ? expiration.getTime() - Date.now() : READ_AGAIN_MS;
    if (lifeMs <= 0) throw new IdentityError('The credentials for AWS have expired.', { isRefused: true });
    const [source] = Object.keys($source ?? {}).flatMap((name) => SOURCES[name] ?? []);
    return {
      value: { accessKeyId, secretAccessKey, sessionToken, ...(source !== undefined && { source }) },
      lifeMs,
    };
  } catch (error) {
    throw error instanceof IdentityError ? error : identityError(error, identity);
  }
}

type Provide = () => Promise<
  AwsCredentials & { readonly expiration?: Date | undefined; readonly $source?: object | undefined }
>;

async function providerOf(identity: AwsIdentity): Promise<Provide> {
  const { region, accessKeyId, secretAccessKey, sessionToken, roleArn, externalId } = identity;
  const given = { accessKeyId, secretAccessKey, ...(sessionToken && { sessionToken }) };
  if (accessKeyId && !roleArn) return async () => given;
  // Loaded here, so that a process without such a connector does not pay for it.
  const { fromNodeProviderChain, fromTemporaryCredentials } = await import('@aws-sdk/credential-providers');
  const base = accessKeyId
    ? given
    : fromNodeProviderChain({
        timeout: METADATA_TIMEOUT_MS,
        maxRetries: 1,
        clientConfig: { region, requestHandler: SERVICE_CALLS },
      });
  if (!roleArn) return base as Provide;
  return fromTemporaryCredentials({
    masterCredentials: base,
    params: {
      RoleArn: roleArn,
      RoleSessionName: 'weighbridge',
      ...(externalId && { ExternalId: externalId }),
    },
    clientConfig: { region, maxAttempts: 2, requestHandler: SERVICE_CALLS },
  });
}

/** Only the name of the failure is shown: its text may repeat what was sent. */
function identityError(error: unknown, { roleArn }: AwsIdentity): IdentityError {
  const { name = '' } = error as { readonly name?: string };
  const isRefused = REFUSALS.has(name);
  const shown = /^\w{1,60}$/.test(name) ? name : 'an unknown error';
  const what = roleArn
    ? 'AWS did not let the connector assume its role'
    : 'No credentials for AWS were found';
  return new IdentityError(`${what} (${shown}). Check its auth, and the identity of the proxy's pod.`, {
    isRefused,
  });
}

export interface SignedRequest {
  readonly method: string;
  /** With the port, unless it is that of the protocol. */
  readonly host: string;
  /** As it is sent, without a query. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly contentType: string | undefined;
  /** Its bytes, or their SHA-256 in hex. */
  readonly body: readonly Buffer[] | { readonly sha256: string };
}

/** Signs a request by SigV4 for a service; resolves with the headers to add. */
export async function signAws(
  { method, host, path, query = {}, contentType, body }: SignedRequest,
  credentials: AwsCredentials,
  { service, region, now }: { readonly service: string; readonly region: string; readonly now: Date },
): Promise<Record<string, string>> {
  const { SignatureV4 } = await import('@smithy/signature-v4');
  const signer = new SignatureV4({
    service,
    region,
    credentials: withoutUndefined(credentials),
    sha256: NodeSha256,
    // For each service but S3, the path is encoded once more than it is sent.
    uriEscapePath: service !== 's3',
  });
  const headers: Record<string, string> = {
    host,
    'x-amz-content-sha256': 'sha256' in body ? body.sha256 : sha256Of(body),
    ...(contentType !== undefined && { 'content-type': contentType }),
  };
  const [hostname = '', port] = host.split(/:(?=\d+$)/);
  const request = {
    method,
    protocol: 'https:',
    hostname,
    ...(port && { port: Number(port) }),
    path,
    headers,
    query: { ...query },
  };
  const signed = await signer.sign(request, { signingDate: now });
  const { host: _host, 'content-type': _type, ...added } = signed.headers;
  return added;
}

function sha256Of(pieces: readonly Buffer[]): string {
  const hash = createHash('sha256');
  for (const piece of pieces) hash.update(piece);
  return hash.digest('hex');
}

function withoutUndefined({ accessKeyId, secretAccessKey, sessionToken }: AwsCredentials) {
  return { accessKeyId, secretAccessKey, ...(sessionToken !== undefined && { sessionToken }) };
}

/** SHA-256 as the signer wants it, by OpenSSL. */
class NodeSha256 {
  readonly #secret: Uint8Array | undefined;
  #hash: Hash | Hmac;

  constructor(secret?: string | ArrayBuffer | ArrayBufferView) {
    this.#secret = secret === undefined ? undefined : bytesOf(secret);
    this.#hash = this.#new();
  }

  update(data: string | ArrayBuffer | ArrayBufferView): void {
    this.#hash.update(bytesOf(data));
  }

  async digest(): Promise<Uint8Array> {
    return this.#hash.digest();
  }

  reset(): void {
    this.#hash = this.#new();
  }

  #new(): Hash | Hmac {
    return this.#secret ? createHmac('sha256', this.#secret) : createHash('sha256');
  }
}

function bytesOf(data: string | ArrayBuffer | ArrayBufferView): Uint8Array {
  if (typeof data === 'string') return Buffer.from(data, 'utf8');
  return ArrayBuffer.isView(data)
    ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
    : new Uint8Array(data);
}
