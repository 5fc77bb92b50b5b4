import { type Claims, verifiedClaims } from './jwt.ts';

/** An application that is registered in the tenant. */
export interface EntraApp {
  readonly clientId: string;
  /** Undefined: it has none. */
  readonly clientSecret?: string;
  /** When the secret ends, in Unix milliseconds. */
  readonly secretExpiresAtMs?: number;
  /** The subject that may stand for it: `system:serviceaccount:<namespace>:<name>`. */
  readonly federatedSubject?: string;
}

export interface EntraFault {
  readonly status: number;
  readonly error: string;
  /** The number of the error, which its description begins with. */
  readonly number: number;
}

export interface EntraState {
  readonly tenantId: string;
  readonly apps: readonly EntraApp[];
  /** The resources of which tokens are issued, such as `https://cognitiveservices.azure.com`. */
  readonly resources: readonly string[];
  readonly federationKey: Buffer;
  readonly nowMs: number;
}

/** What MSAL adds to each request. */
const TELEMETRY = /^(x-client-|x-ms-lib-capability$|x-app-|client_info$|client-request-id$)/;
const PARAMETERS = new Set([
  'claims',
  'client_id',
  'client_secret',
  'client_assertion',
  'client_assertion_type',
  'grant_type',
  'scope',
]);
const JWT_BEARER = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer';

/**
 * Why Microsoft Entra ID refuses a request for a token (https://learn.microsoft.com/entra/identity-platform/reference-error-codes);
 * else the resource that it is for.
 */
export function entraAnswer(
  tenant: string,
  form: URLSearchParams,
  state: EntraState,
): EntraFault | { readonly resource: string; readonly clientId: string } {
  const invalid = (number: number): EntraFault => ({ status: 400, error: 'invalid_request', number });
  if (tenant !== state.tenantId) return invalid(90002);
  for (const name of form.keys()) {
    if (form.getAll(name).length !== 1) return invalid(90014);
    if (!PARAMETERS.has(name) && !TELEMETRY.test(name)) return invalid(90100);
  }
  for (const name of ['grant_type', 'client_id', 'scope']) if (!form.get(name)) return invalid(900144);
  if (form.get('grant_type') !== 'client_credentials') {
    return { status: 400, error: 'unsupported_grant_type', number: 70003 };
  }
  const app = state.apps.find(({ clientId }) => clientId === form.get('client_id'));
  if (!app) return { status: 400, error: 'unauthorized_client', number: 700016 };
  const fault = proofFault(app, form, state);
  if (fault !== undefined) return { status: 401, error: 'invalid_client', number: fault };
  const [, resource = ''] = /^(\S+)\/\.default$/.exec(form.get('scope') ?? '') ?? [];
  if (resource === '') return { status: 400, error: 'invalid_scope', number: 1002012 };
  if (!state.resources.includes(resource)) {
    return { status: 400, error: 'invalid_resource', number: 500011 };
  }
  return { resource, clientId: app.clientId };
}

function proofFault(app: EntraApp, form: URLSearchParams, state: EntraState): number | undefined {
  const secret = form.get('client_secret');
  const assertion = form.get('client_assertion');
  if ((secret === null) === (assertion === null)) return 7000218;
  if (assertion === null) {
    if (secret !== app.clientSecret) return 7000215;
    return state.nowMs < (app.secretExpiresAtMs ?? Number.POSITIVE_INFINITY) ? undefined : 7000222;
  }
  if (form.get('client_assertion_type') !== JWT_BEARER) return 7000218;
  const claims = verifiedClaims(assertion, state.federationKey);
  return claims === undefined ? 50027 : assertionFault(claims, app, state.nowMs);
}

function assertionFault(claims: Claims, app: EntraApp, nowMs: number): number | undefined {
  if (claims.sub !== app.federatedSubject) return 700213;
  if (claims.aud !== 'api://AzureADTokenExchange') return 700212;
  return nowMs < Number(claims.exp) * 1_000 ? undefined : 700024;
}
