import { expect, it } from 'vitest';
import { planWarnings } from './planWarnings.ts';

const resource = (fields: Record<string, unknown>) => ({ fields, line: 1, file: 'a.yaml' });

it('warns of limits for models that neither the file nor the service has', () => {
  const limit = (name: string, models?: string[]) => ({
    name,
    ...(models && { models }),
    limit_micro_usd: 1,
  });
  const limits = [
    limit('all'),
    limit('here', ['acme/*']),
    limit('new', ['*/new']),
    limit('typo', ['acme/smal', 'acme/larg?']),
  ];
  const file = {
    policies: [resource({ name: 'team', limits }), resource({ name: 'plain' })],
    models: [resource({ model: 'other/new' })],
  };
  expect(planWarnings(file, { models: [{ id: 'acme/small' }, { id: 'acme/large' }] })).toEqual([
    'warning: the models of the limit typo of the policy team match no model of the catalog, so it counts nothing yet',
  ]);
});
