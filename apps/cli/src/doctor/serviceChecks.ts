import { ApiError, bodyOf } from '@weighbridge/client';
import { usd } from '../session/output.ts';
import type { Session } from '../session/session.ts';
import { clockFinding, type Finding, fail, ok, skipped, warn } from './finding.ts';

/** Whether the service can be reached and used with this key. `goesOn` is false where all further calls would only repeat that. */
export async function serviceChecks(session: Session): Promise<{ findings: Finding[]; goesOn: boolean }> {
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
          `${baseUrl} can't be reached`,
          'Is it running there? Name it by --url or WEIGHBRIDGE_URL; `weighbridge up` starts one here.',
        ),
      ],
      goesOn: false,
    };
  }
  const state = (await ready.json().catch(() => undefined)) as
    | { status?: string; reason?: string }
    | undefined;
  if (state?.status === undefined) {
    return {
      findings: [
        fail(
          'service',
          `${baseUrl} answers, but not as Weighbridge does`,
          'Is something else there? Name the operator API by --url.',
        ),
      ],
      goesOn: false,
    };
  }
  const said = `${baseUrl} is ${state.status}${state.reason ? `: ${state.reason}` : ''}`;
  const findings = [
    ready.ok ? ok('service', said) : fail('service', said, 'Look at the log of the app that is not ready.'),
    serviceClock(ready, before, after),
  ];
  const usage = await attempt('usage:read', () => bodyOf(client.GET('/api/v1/usage')));
  if (usage.error && isRefused(usage.error)) {
    findings.push(
      fail(
        'key',
        `${usage.error.message} It is from ${keySource}.`,
        'Name another one by WEIGHBRIDGE_KEY or --key-file.',
      ),
    );
    return { findings, goesOn: false };
  }
  findings.push(ok('key', `accepted, from ${keySource}`));
  if (usage.value) findings.push(budgetFinding(usage.value), ageFinding(usage.value.bucket_as_of, now()));
  else findings.push(usage.finding('budget'));
  const models = await attempt('models:read', () =>
    bodyOf(client.GET('/api/v1/models', { params: { query: { page_size: '1' } } })),
  );
  findings.push(models.value ? modelsFinding(models.value.data[0]?.model) : models.finding('models'));
  return { findings, goesOn: true };
}

/** Whether it is the credential itself that is not taken: a key, or a token of an OIDC issuer. */
function isRefused({ status, code }: ApiError): boolean {
  return status === 401 || code === 'principal_unknown' || code === 'oidc_issuer_unavailable';
}

const TIMEOUT_MS = 10_000;
const OLD_MS = 120_000;

/** The header has whole seconds, rounded down. */
function serviceClock(ready: Response, before: Date, after: Date): Finding {
  const date = ready.headers.get('date');
  if (!date) return skipped("service's clock", 'its answer has no date');
  const earliest = new Date(before.getTime() - 1_000);
  return clockFinding("service's clock", new Date(date), earliest, after);
}

function budgetFinding(usage: {
  readonly policy_id: string;
  readonly remaining_micro_usd: number | null;
  readonly active: boolean;
}): Finding {
  const { policy_id, remaining_micro_usd, active } = usage;
  const left = usd(remaining_micro_usd);
  if (remaining_micro_usd !== null && remaining_micro_usd <= 0 && active) {
    return warn(
      'budget',
      `${policy_id}: nothing left of this key's`,
      `Raise it: weighbridge policies update ${policy_id} --limit-usd …`,
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
    'A proxy holds it back, by usage that has not arrived or by silence: see below, and `weighbridge proxies list`.',
  );
}

function modelsFinding(first: string | undefined): Finding {
  if (first !== undefined) return ok('models', `${first} and others can be reached`);
  return fail(
    'models',
    'none can be reached',
    "No connector is enabled and usable, or this key's policy allows none of its models: weighbridge connectors list.",
  );
}

export interface Attempt<T> {
  readonly value?: T;
  readonly error?: ApiError;
  /** What to say where there is no value: a key without the scope is no fault, but leaves the check undone. */
  finding(check: string): Finding;
}

export async function attempt<T>(scope: string, call: () => Promise<T>): Promise<Attempt<T>> {
  try {
    return { value: await call(), finding: (check) => ok(check, '') };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return {
      error,
      finding: (check) =>
        error.code === 'insufficient_scope'
          ? skipped(check, `the key lacks the scope ${scope}`)
          : fail(check, error.message, 'Look at the log of the control plane.'),
    };
  }
}
