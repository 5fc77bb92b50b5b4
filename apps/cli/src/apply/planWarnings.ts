import { compileModelPatterns } from '@weighbridge/domain';
import type { CurrentState } from './changes.ts';
import type { ApplyFile, Json } from './desiredState.ts';

interface LimitByModel {
  readonly policy: string;
  readonly name: string;
  readonly models: readonly string[];
}

/** The further limits of a file that are for certain models. */
export function limitsByModel({ policies }: Pick<ApplyFile, 'policies'>): LimitByModel[] {
  return policies.flatMap(({ fields }) =>
    ((fields.limits ?? []) as Json[]).flatMap(({ name, models }) =>
      Array.isArray(models) && models.length > 0
        ? [{ policy: String(fields.name), name: String(name), models }]
        : [],
    ),
  );
}

/** What about a file may not be meant: limits for models that neither it nor the service has. */
export function planWarnings(
  file: Pick<ApplyFile, 'policies' | 'models'>,
  { models }: Pick<CurrentState, 'models'>,
): string[] {
  const ids = [
    ...models.map(({ id }) => String(id)),
    ...file.models.map(({ fields }) => String(fields.model)),
  ];
  return limitsByModel(file)
    .filter((limit) => !ids.some(compileModelPatterns(limit.models)))
    .map(
      ({ policy, name }) =>
        `warning: the models of the limit ${name} of the policy ${policy} match no model of the catalog, so it counts nothing yet`,
    );
}
