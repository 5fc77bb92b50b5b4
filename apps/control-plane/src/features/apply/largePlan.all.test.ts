import { expect, it } from 'vitest';
import { startTestApi } from '../../../test/testApi.ts';

it('applies a plan of thousands of changes', async () => {
  const api = await startTestApi();
  const calls = Array.from({ length: 3_000 }, (_, n) =>
    n % 3 === 0
      ? { method: 'POST', path: '/api/v1/policies', body: { name: `p${n}` }, creates: `{p${n}}` }
      : {
          method: 'PUT',
          path: `/api/v1/principals/person-${n}`,
          body: { policy_id: `{p${n - (n % 3)}}` },
        },
  );
  try {
    const { body } = await api.call('POST', '/apply', { body: { calls } });
    expect(body).toMatchObject({ calls: 3_000, errors: [] });
    const [policy, , person] = body.results as { id: string }[];
    expect((await api.call('GET', `/principals/${person?.id}`)).body).toMatchObject({
      policy_id: policy?.id,
    });
  } finally {
    await api.close();
  }
});
