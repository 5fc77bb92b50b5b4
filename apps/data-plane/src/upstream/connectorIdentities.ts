import { type DescMessage, equals } from '@bufbuild/protobuf';
import {
  AwsIdentitySchema,
  AzureIdentitySchema,
  type Connector,
  type GoogleIdentity,
  GoogleIdentitySchema,
  type OAuthClient,
  OAuthClientSchema,
} from '@weighbridge/contracts';
import {
  type AccessToken,
  type AwsCredentials,
  type Environment,
  fetchAwsCredentials,
  fetchAzureToken,
  fetchClientToken,
  fetchGoogleToken,
  type GoogleToken,
  type IdentityError,
} from '@weighbridge/identities';
import { TokenSource } from './tokenSource.ts';

export interface ConnectorIdentitiesDeps {
  /** Called for each failure to get a token; `hasToken`: the last one still serves. */
  readonly onFailed: (connector: Connector, error: IdentityError, hasToken: boolean) => void;
  /** Monotonic. */
  readonly nowMs: () => number;
  /** The time that signatures name, in Unix milliseconds. */
  readonly clockMs: () => number;
  /** From 0 up to 1. */
  readonly random: () => number;
  /** This proxy's own identity at Azure, by the variables of Microsoft's libraries. */
  readonly azureEnvironment: Environment;
  /** Of one request to an identity provider. Default: 10 seconds. */
  readonly timeoutMs?: number;
}

/** What a connector is called with if it is computed. */
export type ConnectorIdentity =
  | { readonly kind: 'token'; readonly tokens: TokenSource }
  | {
      readonly kind: 'aws';
      readonly tokens: TokenSource<AwsCredentials>;
      readonly region: string;
      readonly clockMs: () => number;
    }
  | { readonly kind: 'google'; readonly tokens: TokenSource<GoogleToken>; readonly location: string };

type IdentityMessage = Exclude<Connector['identity'], { case: undefined }>;

interface Entry {
  readonly message: IdentityMessage;
  readonly identity: ConnectorIdentity;
}

/** The computed identities of connectors: one source of tokens for each, while its identity stays the same. */
export class ConnectorIdentities {
  readonly #deps: ConnectorIdentitiesDeps;
  readonly #byConnector = new WeakMap<Connector, ConnectorIdentity>();
  /** By connector id: the latest. */
  readonly #latest = new Map<string, Entry>();

  constructor(deps: ConnectorIdentitiesDeps) {
    this.#deps = deps;
  }

  /** Undefined if the connector has a credential, or needs none. */
  of(connector: Connector): ConnectorIdentity | undefined {
    const { identity } = connector;
    return identity.case === undefined ? undefined : this.#identityOf(connector, identity);
  }

  #identityOf(connector: Connector, message: IdentityMessage): ConnectorIdentity {
    const known = this.#byConnector.get(connector);
    if (known) return known;
    const latest = this.#latest.get(connector.id);
    // Other settings of the connector changed.
    const identity =
      latest && isSame(latest.message, message) ? latest.identity : this.#open(connector, message);
    this.#latest.set(connector.id, { message, identity });
    this.#byConnector.set(connector, identity);
    return identity;
  }

  #open(connector: Connector, message: IdentityMessage): ConnectorIdentity {
    const { timeoutMs = TIMEOUT_MS } = this.#deps;
    if (message.case === 'oauth') {
      const fetchToken = () => askTokenEndpoint(message.value, timeoutMs);
      return { kind: 'token', tokens: this.#source(connector, fetchToken, (token) => token) };
    }
    if (message.case === 'google') {
      const fetchToken = () => askGoogle(message.value, timeoutMs);
      const tokens = this.#source<GoogleToken>(connector, fetchToken, ({ token }) => token);
      return { kind: 'google', tokens, location: message.value.location };
    }
    if (message.case === 'azure') {
      const { allowPrivateAddress } = message.value;
      const env = this.#deps.azureEnvironment;
      const fetchToken = () => fetchAzureToken(message.value, { allowPrivateAddress, timeoutMs, env });
      return { kind: 'token', tokens: this.#source(connector, fetchToken, (token) => token) };
    }
    const fetchToken = () => fetchAwsCredentials(message.value);
    const tokens = this.#source<AwsCredentials>(connector, fetchToken, ({ accessKeyId }) => accessKeyId);
    return { kind: 'aws', tokens, region: message.value.region, clockMs: this.#deps.clockMs };
  }

  #source<Value>(
    connector: Connector,
    fetchToken: () => Promise<AccessToken<Value>>,
    nameOf: (value: Value) => string,
  ): TokenSource<Value> {
    const { nowMs, random, onFailed, timeoutMs = TIMEOUT_MS } = this.#deps;
    // What a library waits for elsewhere, it bounds itself, if at all.
    const maxWaitMs = 1.5 * timeoutMs;
    const failed = (error: IdentityError, hasToken: boolean) => onFailed(connector, error, hasToken);
    return new TokenSource({ fetchToken, nameOf, onFailed: failed, nowMs, random, maxWaitMs });
  }
}

const SCHEMAS: Readonly<Record<IdentityMessage['case'], DescMessage>> = {
  oauth: OAuthClientSchema,
  aws: AwsIdentitySchema,
  google: GoogleIdentitySchema,
  azure: AzureIdentitySchema,
};

function isSame(one: IdentityMessage, other: IdentityMessage): boolean {
  return one.case === other.case && equals(SCHEMAS[one.case], one.value, other.value);
}

const TIMEOUT_MS = 10_000;

function askTokenEndpoint(client: OAuthClient, timeoutMs: number): Promise<AccessToken> {
  const { tokenUrl, clientId, clientSecret, scope, audience, basicAuthentication } = client;
  const clientAuthentication = basicAuthentication ? 'basic' : 'post';
  const { allowPrivateAddress } = client;
  return fetchClientToken(
    { tokenUrl, clientId, clientSecret, scope, audience, clientAuthentication },
    { allowPrivateAddress, timeoutMs },
  );
}

function askGoogle(
  { project, credentials, allowPrivateAddress }: GoogleIdentity,
  timeoutMs: number,
): Promise<AccessToken<GoogleToken>> {
  return fetchGoogleToken({ project, credentials }, { allowPrivateAddress, timeoutMs });
}
