import { equals } from '@bufbuild/protobuf';
import {
  AwsIdentitySchema,
  type Connector,
  type OAuthClient,
  OAuthClientSchema,
} from '@weighbridge/contracts';
import {
  type AccessToken,
  type AwsCredentials,
  fetchAwsCredentials,
  fetchClientToken,
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
}

/** What a connector is called with if it is computed. */
export type ConnectorIdentity =
  | { readonly kind: 'token'; readonly tokens: TokenSource }
  | {
      readonly kind: 'aws';
      readonly tokens: TokenSource<AwsCredentials>;
      readonly region: string;
      readonly clockMs: () => number;
    };

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
    if (message.case === 'oauth') {
      const fetchToken = () => askTokenEndpoint(message.value);
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
    const { nowMs, random, onFailed } = this.#deps;
    const failed = (error: IdentityError, hasToken: boolean) => onFailed(connector, error, hasToken);
    return new TokenSource({ fetchToken, nameOf, onFailed: failed, nowMs, random });
  }
}

function isSame(one: IdentityMessage, other: IdentityMessage): boolean {
  if (one.case === 'oauth' && other.case === 'oauth') {
    return equals(OAuthClientSchema, one.value, other.value);
  }
  return one.case === 'aws' && other.case === 'aws' && equals(AwsIdentitySchema, one.value, other.value);
}

const TIMEOUT_MS = 10_000;

function askTokenEndpoint(client: OAuthClient): Promise<AccessToken> {
  const { tokenUrl, clientId, clientSecret, scope, audience, basicAuthentication } = client;
  const clientAuthentication = basicAuthentication ? 'basic' : 'post';
  const { allowPrivateAddress } = client;
  return fetchClientToken(
    { tokenUrl, clientId, clientSecret, scope, audience, clientAuthentication },
    { allowPrivateAddress, timeoutMs: TIMEOUT_MS },
  );
}
