import { ApiError, bodyOf } from '@weighbridge/client';
import { usd } from '../session/output.ts';
import type { Session } from '../session/session.ts';
import { clockFinding, type Finding, fail, ok, skipped, warn } from './finding.ts';

/** Checks that the service responds and accepts this key. `canContinue` is false if every further call would fail as well. */
export async function serviceChecks(
  session: Session,
): Promise<{ findings: Finding[]; canContinue: boolean }> {
  const { client, connection, now } = session;
  const { baseUrl, keySource } = connection;
  const before = now();
  const ready = await fetch(`${baseUrl}/readyz`, { signal: AbortSignal.timeout(TIMEOUT_MS) }).catch(
    () => undefined,
  );
  const after = now();
  if (!ready) {
    return {
      findings: [
        fail(
          'service',
          `${baseUrl} is unreachable`,
          'Check that it runs there, or give its address by --url or WEIGHBRIDGE_URL. `weighbridge up` starts one here.',
        ),
      ],
      canContinue: false,
    };
  }
  const state = (await ready.json().catch(() => undefined)) as
    | { status?: string; reason?: string; degraded?: string }
    | undefined;
  if (state?.status === undefined) {
    return {
      findings: [
        fail(
          'service',
          `${baseUrl} responds, but it is not Weighbridge`,
          'Give the address of the operator API by --url.',
        ),
      ],
      canContinue: false,
    };
  }
  const detail = `${baseUrl} is ${state.status}${state.reason ? `: ${state.reason}` : ''}`;
  const findings = [serviceState(ready.ok, detail, state.degraded), serviceClock(ready, before, after)];
  const usage = await tryCall('usage:read', () => bodyOf(client.GET('/api/v1/usage')));
  if (usage.error?.status === 404) {
    findings.push(
      fail(
        'service',
        `${baseUrl} has no operator API: it is a data plane or metering`,
        'Give the address of the control plane (port 8081 by default), or one base URL that sends /api/v1 there.',
      ),
    );
    return { findings, canContinue: false };
  }
  if (usage.error && isRefused(usage.error)) {
    findings.push(
      fail(
        'key',
        `${usage.error.message} The key is from ${keySource}.`,
        'Give another key by WEIGHBRIDGE_KEY or --key-file.',
      ),
    );
    return { findings, canContinue: false };
  }
  findings.push(ok('key', `accepted, from ${keySource}`));
  if (usage.value) findings.push(budgetFinding(usage.value), ageFinding(usage.value.bucket_as_of, now()));
  else findings.push(usage.finding('budget'));
  const models = await tryCall('models:read', () =>
    bodyOf(client.GET('/api/v1/models', { params: { query: { page_size: 1 } } })),
  );
  findings.push(models.value ? modelsFinding(models.value.data[0]?.model) : models.finding('models'));
  return { findings, canContinue: true };
}

/** Whether the service refused the credential itself: a key, or a token of an OIDC issuer. */
function isRefused({ status, code }: ApiError): boolean {
  return status === 401 || code === 'principal_unknown' || code === 'oidc_issuer_unavailable';
}

const TIMEOUT_MS = 10_000;
const OLD_MS = 120_000;
/** What a proxy says of itself. */
const NO_LEASES = 'no new leases';

/** The `Date` header is rounded down to seconds. */
function serviceState(isReady: boolean, detail: string, degraded: string | undefined): Finding {
  if (!isReady) return fail('service', detail, 'Check the log of the app that is not ready.');
  if (degraded === undefined) return ok('service', detail);
  return warn(
    'service',
    `${detail}, but degraded: ${degraded}`,
    degraded === NO_LEASES
      ? 'Check whether its control plane and Postgres answer.'
      : 'Requests are served. An operator sees more of it below.',
  );
}

function serviceClock(ready: Response, before: Date, after: Date): Finding {
  const date = ready.headers.get('date');
  if (!date) return skipped("service's clock", 'its response has no Date header');
  const earliest = new Date(before.getTime() - 1_000);
  return clockFinding("service's clock", new Date(date), earliest, after);
}

function budgetFinding(usage: {
  readonly policy_id: string;
  readonly headroom_micro_usd: number | null;
  readonly headroom_counter: { readonly policy_id: string | null; readonly is_parent: boolean } | null;
}): Finding {
  const { policy_id, headroom_micro_usd, headroom_counter } = usage;
  const left = usd(headroom_micro_usd);
  if (headroom_micro_usd === 0) {
    const whose = headroom_counter?.is_parent ? 'the budget of a parent policy' : "this key's budget";
    return warn(
      'budget',
      `${policy_id}: ${whose} is used up`,
      `Raise it: weighbridge policies update ${headroom_counter?.policy_id ?? 'POLICY'} --limit-usd …`,
    );
  }
  return ok('budget', `${policy_id}: ${left === 'unlimited' ? left : `${left} left`}`);
}

function ageFinding(asOf: string, now: Date): Finding {
  const ageMs = now.getTime() - new Date(asOf).getTime();
  const detail = `complete up to ${asOf}`;
  if (ageMs < OLD_MS) return ok('spend', detail);
  return warn(
    'spend',
    `${detail}, ${Math.round(ageMs / 60_000)} minutes ago`,
    'A proxy is silent, or some of its usage has not arrived: see below, and `weighbridge proxies list`.',
  );
}

function modelsFinding(first: string | undefined): Finding {
  if (first !== undefined) return ok('models', `${first} can be reached`);
  return fail(
    'models',
    'none can be reached',
    "Either no connector is enabled and usable, or this key's policy allows none of their models. See weighbridge connectors list.",
  );
}

export interface CallResult<T> {
  readonly value?: T;
  readonly error?: ApiError;
  /** The finding if there is no value: a missing scope is not a failure, the check is skipped. */
  finding(check: string): Finding;
}

export async function tryCall<T>(scope: string, call: () => Promise<T>): Promise<CallResult<T>> {
  try {
    return { value: await call(), finding: (check) => ok(check, '') };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return {
      error,
      finding: (check) =>
        error.code === 'insufficient_scope'
          ? skipped(check, `the key lacks the scope ${scope}`)
          : fail(check, error.message, 'Check the log of the control plane.'),
    };
  }
}
