import { equals } from '@bufbuild/protobuf';
import { type Connector, type OAuthClient, OAuthClientSchema } from '@weighbridge/contracts';
import { type AccessToken, fetchClientToken, type IdentityError } from '@weighbridge/identities';
import { TokenSource } from './tokenSource.ts';

export interface ConnectorIdentitiesDeps {
  /** Called for each failure to get a token; `hasToken`: the last one still serves. */
  readonly onFailed: (connector: Connector, error: IdentityError, hasToken: boolean) => void;
  /** Monotonic. */
  readonly nowMs: () => number;
  /** From 0 up to 1. */
  readonly random: () => number;
  /** Asks the identity provider. */
  readonly fetchToken?: (client: OAuthClient) => Promise<AccessToken>;
}

interface Entry {
  readonly client: OAuthClient;
  readonly source: TokenSource;
}

/** What connectors are called with if it is computed: one source of tokens for each, while its identity stays the same. */
export class ConnectorIdentities {
  readonly #deps: ConnectorIdentitiesDeps;
  readonly #byConnector = new WeakMap<Connector, TokenSource>();
  /** By connector id: the latest. */
  readonly #latest = new Map<string, Entry>();

  constructor(deps: ConnectorIdentitiesDeps) {
    this.#deps = deps;
  }

  /** Undefined if the connector has a credential, or needs none. */
  of(connector: Connector): TokenSource | undefined {
    return connector.identity.case === undefined
      ? undefined
      : this.#sourceOf(connector, connector.identity.value);
  }

  #sourceOf(connector: Connector, client: OAuthClient): TokenSource {
    const known = this.#byConnector.get(connector);
    if (known) return known;
    const latest = this.#latest.get(connector.id);
    // Other settings of the connector changed.
    const isSame = latest !== undefined && equals(OAuthClientSchema, latest.client, client);
    const source = isSame ? latest.source : this.#open(connector, client);
    this.#latest.set(connector.id, { client, source });
    this.#byConnector.set(connector, source);
    return source;
  }

  #open(connector: Connector, client: OAuthClient): TokenSource {
    const { nowMs, random, onFailed, fetchToken = askTokenEndpoint } = this.#deps;
    return new TokenSource({
      fetchToken: () => fetchToken(client),
      onFailed: (error, hasToken) => onFailed(connector, error, hasToken),
      nowMs,
      random,
    });
  }
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
