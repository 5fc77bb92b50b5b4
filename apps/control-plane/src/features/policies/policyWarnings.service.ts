import type { Database } from '@weighbridge/database';
import { compileModelPatterns } from '@weighbridge/domain';
import { findModelIds } from '../catalog/catalog.service.ts';
import type { Policy } from './policies.schemas.ts';

/** The policy as it was written, with what about it may not be meant. It is no error: a model may be added later. */
export async function withWarnings(db: Database, policy: Policy): Promise<Policy> {
  const byModel = (policy.limits ?? []).flatMap(({ name, models = [] }) =>
    models.length > 0 ? [{ name, counts: compileModelPatterns(models) }] : [],
  );
  if (byModel.length === 0) return policy;
  const ids = await findModelIds(db);
  const idle = byModel.filter(({ counts }) => !ids.some(counts));
  if (idle.length === 0) return policy;
  const warnings = idle.map(
    ({ name }) =>
      `The models of the limit ${name} match no model of the catalog, so it counts nothing yet. Patterns are of ids such as openai/gpt-5.4 or */gpt-*.`,
  );
  return { ...policy, warnings };
}
