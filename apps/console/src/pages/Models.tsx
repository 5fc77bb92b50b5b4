import type { components } from '@weighbridge/client';
import { api } from '../api/client.ts';
import { readsAll, useWhoami } from '../app/session.ts';
import { Badge, Name, Time } from '../ui/bits.tsx';
import { Loaded, Page, Section } from '../ui/Page.tsx';
import { useSearch } from '../ui/search.ts';
import { Pager, Table } from '../ui/Table.tsx';
import { count, money } from '../ui/text.ts';

type Model = components['schemas']['Model'];
type Price = components['schemas']['Money'];

const usd = ({ units, nanos }: Price) => money(units * 1_000_000 + nanos / 1_000);

export function Models() {
  const [search] = useSearch();
  const page = search.page_token === undefined ? {} : { page_token: search.page_token };
  const query = api.useQuery('get', '/api/v1/models', { params: { query: { page_size: 100, ...page } } });
  const whoami = useWhoami();
  return (
    <Page title="Models & prices" lead="What you can ask, in USD for a million tokens.">
      {readsAll(whoami) && <Feed />}
      <Loaded query={query}>
        {({ data, next_page_token }) => (
          <>
            <Table<Model>
              caption="Models"
              rows={data}
              rowKey={({ model }) => model}
              columns={[
                { title: 'Model', value: ({ model }) => <Name text={model} />, wrap: true },
                { title: 'Input', value: ({ input_price }) => usd(input_price), end: true },
                { title: 'From cache', value: ({ cache_read_price }) => usd(cache_read_price), end: true },
                { title: 'To cache', value: ({ cache_write_price }) => usd(cache_write_price), end: true },
                { title: 'Output', value: ({ output_price }) => usd(output_price), end: true },
                { title: 'Context', value: ({ context_window }) => count(context_window), end: true },
                { title: 'Price from', value: ({ price_origin }) => price_origin },
                { title: 'Priced', value: ({ priced_at }) => <Time at={priced_at} /> },
                {
                  title: 'State',
                  value: ({ deprecated_at }) => deprecated_at && <Badge tone="warn">deprecated</Badge>,
                },
              ]}
              empty={<p>No model can be asked. An operator adds a connector first.</p>}
            />
            <Pager next={next_page_token} />
          </>
        )}
      </Loaded>
    </Page>
  );
}

function Feed() {
  const query = api.useQuery('get', '/api/v1/catalog/feed');
  return (
    <Section title="Feed of prices">
      <Loaded query={query}>
        {({ state, error, last_success_at, held_changes }) => (
          <p>
            <Badge tone={error ? 'bad' : 'plain'}>{state}</Badge> {error !== null && <Name text={error} />}{' '}
            Last read: <Time at={last_success_at} />. {count(held_changes)} changes wait for a decision.
          </p>
        )}
      </Loaded>
    </Section>
  );
}
