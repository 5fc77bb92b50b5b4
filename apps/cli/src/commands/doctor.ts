import { ApiError, answer } from '@weighbridge/client';
import { Command } from 'commander';
import { shown, usd } from './output.ts';
import { type Cli, openSession, type Session } from './session.ts';

interface Finding {
  readonly check: string;
  readonly ok: boolean;
  readonly detail: string;
}

/** A key's expiry and a window's edges are judged by the service's clock; more than this is worth telling. */
const MAX_CLOCK_DIFFERENCE_MS = 30_000;

export function doctorCommand(cli: Cli): Command {
  return new Command('doctor')
    .description('look whether the service can be reached and used with this key, and say what is wrong')
    .addHelpText('after', '\nExample:\n  WEIGHBRIDGE_URL=https://gateway.example.com weighbridge doctor')
    .action(async (_options, command: Command) => {
      const session = await openSession(cli, command);
      const findings = await examine(session);
      if (session.json) session.out(JSON.stringify(findings, null, 2));
      else
        for (const { check, ok, detail } of findings)
          session.out(shown(`${ok ? '✓' : '✗'} ${check}: ${detail}`));
      const wrong = findings.filter(({ ok }) => !ok).length;
      if (wrong > 0) throw new Error(`${wrong} of ${findings.length} checks failed.`);
    });
}

/** Each check in turn; where the service is not there, the rest would only repeat that. */
async function examine({ client, connection, now }: Session): Promise<Finding[]> {
  const { baseUrl, keySource } = connection;
  const findings: Finding[] = [];
  const add = (check: string, ok: boolean, detail: string) => findings.push({ check, ok, detail });

  let ready: Response;
  try {
    ready = await fetch(`${baseUrl}/readyz`);
  } catch {
    add(
      'service',
      false,
      `${baseUrl} can't be reached: is it running there? \`weighbridge up\` starts one here.`,
    );
    return findings;
  }
  const state = (await ready.json().catch(() => undefined)) as
    | { status?: string; reason?: string }
    | undefined;
  const status = state?.status;
  if (status === undefined) {
    add('service', false, `${baseUrl} answers, but not as Weighbridge does: is something else there?`);
    return findings;
  }
  add('service', ready.ok, `${baseUrl} is ${status}${state?.reason ? `: ${state.reason}` : ''}`);

  const apart = Math.abs(new Date(ready.headers.get('date') ?? now()).getTime() - now().getTime());
  const seconds = Math.round(apart / 1_000);
  add(
    'clock',
    apart <= MAX_CLOCK_DIFFERENCE_MS,
    seconds < 2 ? 'the same as here' : `${seconds} s from the one here`,
  );

  const usage = await attempt('usage:read', () => answer(client.GET('/api/v1/usage')));
  if (usage.error && isRefused(usage.error)) {
    add('key', false, `${usage.error.message} It is from ${keySource}.`);
    return findings;
  }
  add('key', true, `accepted, from ${keySource}`);
  if (usage.value) {
    const { policy_id, remaining_micro_usd, active } = usage.value;
    const left = usd(remaining_micro_usd);
    const isLeft = remaining_micro_usd === null || remaining_micro_usd > 0 || !active;
    add('budget', isLeft, `${policy_id}: ${left === 'unlimited' ? left : `${left} left`}`);
  } else add('budget', usage.allowed, usage.detail);

  const models = await attempt('models:read', () =>
    answer(client.GET('/api/v1/models', { params: { query: { page_size: '1' } } })),
  );
  if (models.value) {
    const [first] = models.value.data;
    const none = 'none can be reached: no enabled connector, or the policy allows none';
    add('models', first !== undefined, first ? `${first.model} and others can be reached` : none);
  } else add('models', models.allowed, models.detail);
  return findings;
}

/** Whether it is the credential itself that is not taken: a key, or a token of an OIDC issuer. */
function isRefused({ status, code }: ApiError): boolean {
  return status === 401 || code === 'principal_unknown' || code === 'oidc_issuer_unavailable';
}

/** What a call gives; a key without the scope is no fault, but leaves the check undone. */
async function attempt<T>(scope: string, call: () => Promise<T>) {
  try {
    return { value: await call(), allowed: true, detail: '' };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const lacksScope = error.code === 'insufficient_scope';
    const detail = lacksScope ? `not looked at: the key lacks the scope ${scope}` : error.message;
    return { error, allowed: lacksScope, detail };
  }
}
