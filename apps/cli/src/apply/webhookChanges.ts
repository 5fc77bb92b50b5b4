import { type Change, idOf, resourceChange } from './changes.ts';
import { ApplyFileError, type DesiredResource, type Json, placeOf } from './desiredState.ts';

/** Fields that a file has as `env:NAME`: they are sent when a webhook is created. A `url` may also be written out. */
const SECRETS = ['secret', 'routing_key', 'url'] as const;
const VARIABLE = /^env:([A-Za-z_][A-Za-z0-9_]*)$/;

function isVariable(field: string, value: unknown): boolean {
  return SECRETS.some((name) => name === field) && VARIABLE.test(String(value));
}

/** The service's webhook of the same name is changed in place; its secrets stay. `idsOf` finds what its filter names. */
export function webhookChange(
  desired: DesiredResource,
  found: Json | undefined,
  idsOf: (section: 'policies' | 'teams', names: readonly string[]) => string[],
): Change[] {
  const { filter, ...fields } = desired.fields;
  const { policies = [], teams = [] } = (filter ?? {}) as Partial<Record<'policies' | 'teams', string[]>>;
  const wanted = {
    ...(found ? withoutSecrets(fields) : fields),
    ...(filter !== undefined && {
      filter: { policy_ids: idsOf('policies', policies), team_ids: idsOf('teams', teams) },
    }),
  };
  return resourceChange('webhooks', wanted, found);
}

/** The id of a policy or team, or a placeholder if it is still to be created. */
export function filteredIdOf(
  section: 'policies' | 'teams',
  resources: readonly Json[],
  isInFile: (name: string) => boolean,
  desired: DesiredResource,
): (name: string) => string {
  return (name) => {
    const found = resources.filter((resource) => resource.name === name);
    const [one] = found;
    if (found.length === 1 && one) return String(one.id);
    if (found.length === 0 && isInFile(name)) return idOf(section, name);
    const why =
      found.length > 1
        ? `${found.length} of the service's ${section} are named`
        : `there is no ${section === 'teams' ? 'team' : 'policy'}`;
    throw new ApplyFileError(`${placeOf(desired)}: filter.${section}: ${why} ${name}`);
  };
}

function withoutSecrets(fields: Json): Json {
  return Object.fromEntries(Object.entries(fields).filter(([name, value]) => !isVariable(name, value)));
}

/** The changes with the values of the variables that webhooks name. What is shown of a change keeps the names. */
export function withSecrets(
  changes: readonly Change[],
  env: Readonly<Record<string, string | undefined>>,
): Change[] {
  return changes.map((change) =>
    change.kind !== 'webhooks'
      ? change
      : {
          ...change,
          calls: change.calls.map((call) => ({ ...call, body: resolved(change, call.body, env) })),
        },
  );
}

function resolved(
  { name }: Change,
  body: unknown,
  env: Readonly<Record<string, string | undefined>>,
): unknown {
  if (typeof body !== 'object' || body === null) return body;
  const fields = body as Json;
  const given = SECRETS.filter((secret) => isVariable(secret, fields[secret]));
  const values = given.map((secret) => {
    const variable = VARIABLE.exec(String(fields[secret]))?.[1] ?? '';
    const value = env[variable];
    if (value) return [secret, value];
    throw new ApplyFileError(
      `The webhook ${name} needs the variable ${variable} (${secret}), which is not set.`,
    );
  });
  return { ...fields, ...Object.fromEntries(values) };
}
