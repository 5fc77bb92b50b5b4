import type { components } from '@weighbridge/client';
import { api } from '../api/client.ts';
import { Badge, Money, Name } from '../ui/bits.tsx';
import { Filters } from '../ui/fields.tsx';
import { Loaded, Page } from '../ui/Page.tsx';
import { useSearch } from '../ui/search.ts';
import { Pager, Table } from '../ui/Table.tsx';
import { count } from '../ui/text.ts';

type Policy = components['schemas']['Policy'];

export function Policies() {
  const [search] = useSearch();
  const given = ['name_contains', 'page_token']
    .filter((name) => search[name])
    .map((name) => [name, search[name]]);
  const query = api.useQuery('get', '/api/v1/policies', { params: { query: Object.fromEntries(given) } });
  const limit = (value: number | null) => (value === null ? 'no limit' : count(value));
  return (
    <Page title="Policies" lead="Budgets, rates and the models that keys may use.">
      <Filters filters={[{ name: 'name_contains', label: 'Name contains' }]} />
      <Loaded query={query}>
        {({ data, next_page_token }) => (
          <>
            <Table<Policy>
              caption="Policies"
              rows={data}
              rowKey={({ id }) => id}
              columns={[
                { title: 'Name', value: ({ name }) => <Name text={name} />, wrap: true },
                {
                  title: 'Default for',
                  value: ({ default_for }) => default_for && <Badge>{default_for}</Badge>,
                },
                {
                  title: 'Budget',
                  value: ({ limit_micro_usd: micro, window }) =>
                    micro === null ? (
                      'no limit'
                    ) : (
                      <>
                        <Money micro={micro} /> a {typeof window === 'string' ? window : 'window'}
                      </>
                    ),
                  end: true,
                },
                { title: 'Counted for', value: ({ counter_scope }) => counter_scope },
                { title: 'Requests a minute', value: (one) => limit(one.requests_per_minute), end: true },
                { title: 'Tokens a minute', value: (one) => limit(one.tokens_per_minute), end: true },
                { title: 'In parallel', value: (one) => limit(one.max_parallel), end: true },
                {
                  title: 'Models',
                  value: ({ allowed_models }) => <Name text={allowed_models.join(', ') || 'all'} />,
                  wrap: true,
                },
                {
                  title: 'Above it',
                  value: ({ parent_policy_id: parent }) =>
                    parent && <Name text={data.find(({ id }) => id === parent)?.name ?? parent} />,
                },
              ]}
              empty={<p>No policy matches.</p>}
            />
            <Pager next={next_page_token} />
          </>
        )}
      </Loaded>
    </Page>
  );
}
