import type { MessageInitShape } from '@bufbuild/protobuf';
import {
  type Connector,
  type ConnectorTestedSchema,
  Dialect,
  type TestConnector,
} from '@weighbridge/contracts';
import { azureSource, type Environment, IdentityError } from '@weighbridge/identities';
import { Cancellation } from '../upstream/cancellation.ts';
import type { ConnectorIdentities } from '../upstream/connectorIdentities.ts';
import { upstreamHeaders } from '../upstream/headers.ts';
import type { UpstreamResponse } from '../upstream/httpExchange.ts';
import { identityErrorOf, isTimeout, wasNeverSent } from '../upstream/upstreamErrors.ts';
import type { Upstreams } from '../upstream/upstreams.ts';
import { cloudModels } from './cloudModels.ts';
import { asObject, errorMessage, plain, textOf } from './testedAnswer.ts';

export interface ConnectorTestDeps {
  readonly upstreams: Pick<Upstreams, 'acquirePermit'>;
  readonly identities: ConnectorIdentities;
  readonly azureEnvironment: Environment;
}

type Tested = MessageInitShape<typeof ConnectorTestedSchema>;
type Outcome = Pick<Tested, 'ok' | 'status' | 'message' | 'region' | 'models' | 'hasMoreModels' | 'identity'>;

const MAX_TESTS = 8;
const MAX_TIMEOUT_MS = 30_000;
const MAX_MODELS = 100;

/** Tries connectors with the identity of this proxy, as an operator asked. No model is used. */
export class ConnectorTests {
  readonly #deps: ConnectorTestDeps;
  #running = 0;

  constructor(deps: ConnectorTestDeps) {
    this.#deps = deps;
  }

  /** Never rejects, and takes no longer than the test may. */
  async run({ testId, connector, timeoutMs }: TestConnector): Promise<Tested> {
    const began = performance.now();
    const limitMs = Math.min(timeoutMs, MAX_TIMEOUT_MS);
    const outcome = connector ? await this.#bounded(connector, limitMs) : NOTHING;
    return {
      testId,
      latencyMs: Math.round(performance.now() - began),
      ok: false,
      identity: connector ? identityOf(connector, this.#deps.azureEnvironment) : '',
      ...outcome,
    };
  }

  async #bounded(connector: Connector, limitMs: number): Promise<Outcome> {
    if (this.#running >= MAX_TESTS) return { message: 'This proxy runs other tests. Try again.' };
    this.#running++;
    const cancellation = new Cancellation();
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<Outcome>((resolve) => {
      timer = setTimeout(() => {
        cancellation.cancel();
        resolve({ message: `The upstream or its identity provider did not answer within ${limitMs} ms.` });
      }, limitMs);
    });
    try {
      return await Promise.race([this.#test(connector, cancellation), late]);
    } finally {
      clearTimeout(timer);
      this.#running--;
    }
  }

  async #test(connector: Connector, cancellation: Cancellation): Promise<Outcome> {
    const { identities, upstreams, azureEnvironment } = this.#deps;
    try {
      const identity = identities.of(connector);
      if (identity && identity.kind !== 'token') {
        const { source } = await identity.tokens.get();
        const listed = await cloudModels(connector, identity, upstreams, cancellation);
        return {
          ...listed,
          ...shownOf(listed.models),
          identity: identityOf(connector, azureEnvironment, source),
        };
      }
      const dialect = connector.dialect === Dialect.ANTHROPIC ? 'anthropic' : 'openai';
      const headers = upstreamHeaders({}, { dialect, connector, plain: true, hasBody: false });
      const permit = upstreams.acquirePermit(connector);
      const request = { method: 'GET', path: '/models', headers, body: undefined } as const;
      return await outcomeOf(await permit.send(request, cancellation), connector.credential);
    } catch (error) {
      return { message: failure(error) };
    }
  }
}

const NOTHING: Outcome = { message: 'The control plane named no connector.' };

const OWN = "the proxy's own identity";

/** What a connector is called with, and where a cloud's library found it. Nothing in it is secret. */
function identityOf({ identity }: Connector, env: Environment, source?: string): string {
  switch (identity.case) {
    case 'azure': {
      const { clientId, tenantId } = identity.value;
      const client = clientId || env.AZURE_CLIENT_ID;
      const tenant = tenantId || env.AZURE_TENANT_ID;
      const parts = [
        azureSource(identity.value, env),
        client && `client ${client}`,
        tenant && `tenant ${tenant}`,
      ];
      return parts.filter(Boolean).join(', ');
    }
    case 'oauth':
      return `client ${identity.value.clientId}`;
    case 'aws': {
      const { accessKeyId, roleArn } = identity.value;
      const base = accessKeyId ? `access key ${accessKeyId}` : OWN;
      if (roleArn) return `${roleArn}, by ${base}`;
      return accessKeyId === '' && source ? `${OWN}: ${source}` : base;
    }
    case 'google':
      if (identity.value.credentials) return source ?? 'a service account';
      return source ? `${OWN}: ${source}` : OWN;
    default:
      return '';
  }
}

async function outcomeOf(
  { status, headers, body, token }: UpstreamResponse,
  credential: string,
): Promise<Outcome> {
  const text = await textOf(body, token ?? credential);
  const region = regionOf(headers);
  if (status >= 200 && status < 300) {
    const message = 'The upstream accepted the credential.';
    return { ok: true, status, message, region, ...shownOf(modelsIn(text)) };
  }
  const said = errorMessage(text);
  return {
    status,
    region,
    message: `${verdict(status, token !== undefined)}${said && ` Its message: ${said}`}`,
  };
}

function shownOf(models: readonly string[]): { readonly models: string[]; readonly hasMoreModels: boolean } {
  const shown = models.slice(0, MAX_MODELS);
  return { models: shown, hasMoreModels: models.length > shown.length };
}

/** Azure says where it is. */
function regionOf(headers: UpstreamResponse['headers']): string {
  const region = headers['x-ms-region'];
  return typeof region === 'string' ? plain(region, 64) : '';
}

function verdict(status: number, hasToken: boolean): string {
  if (status === 401 || status === 403) return 'The upstream rejected the credential.';
  if (status === 404) {
    const token = hasToken ? ' There is a token; whether it is accepted, a request to a model shows.' : '';
    return `The upstream has no list of models at this base_url.${token}`;
  }
  if (status === 429) return 'The upstream is rate limiting this account. Try again later.';
  if (status >= 300 && status < 400)
    return 'The upstream redirects to another address, which is not followed. Check base_url.';
  return `The upstream answered with ${status}.`;
}

function failure(error: unknown): string {
  const identity = identityErrorOf(error);
  if (identity) return identity.message;
  if (error instanceof IdentityError) return error.message;
  if (isTimeout(error)) return 'The upstream did not answer in time.';
  return wasNeverSent(error)
    ? 'The upstream could not be reached from this proxy. Check base_url, and ALLOWED_UPSTREAM_HOSTS if it is private.'
    : 'The upstream closed the connection, or all its requests in flight are taken.';
}

/** The ids of a list of models, in the vendors' usual shapes. */
function modelsIn(text: string): string[] {
  const { data, models } = asObject(text);
  const items = Array.isArray(data) ? data : Array.isArray(models) ? models : [];
  const ids = items.map((item: unknown) => {
    const { id, name } = (item ?? {}) as { readonly id?: unknown; readonly name?: unknown };
    return plain(String(id ?? name ?? ''), 128);
  });
  return ids.filter((id) => id !== '');
}
