import type { components } from '@weighbridge/client';
import { api } from '../api/client.ts';
import { Money, Name } from '../ui/bits.tsx';
import { Loaded, Page, Section } from '../ui/Page.tsx';
import { useSearch } from '../ui/search.ts';
import { Pager, Table } from '../ui/Table.tsx';
import { count, percent } from '../ui/text.ts';

type Evidence = components['schemas']['Evidence'];

export function Profiles() {
  const profiles = api.useQuery('get', '/api/v1/profiles', { params: { query: { page_size: 500 } } });
  return (
    <Page title="Profiles & evidence" lead="Rules that choose among models, and how models did recently.">
      <Section title="Profiles">
        <Loaded query={profiles}>
          {({ data }) => (
            <Table
              caption="Profiles"
              rows={data}
              rowKey={({ id }) => id}
              columns={[
                { title: 'Ask for', value: ({ name }) => <Name text={`router/${name}`} />, wrap: true },
                { title: 'Strategy', value: ({ strategy }) => strategy },
                {
                  title: 'Targets',
                  value: ({ targets }) => <Name text={targets.map(({ model }) => model).join(', ')} />,
                  wrap: true,
                },
              ]}
              empty={<p>No profile. Without one, a request names its model.</p>}
            />
          )}
        </Loaded>
      </Section>
      <Learnt />
    </Page>
  );
}

function Learnt() {
  const [search] = useSearch();
  const page = search.page_token === undefined ? {} : { page_token: search.page_token };
  const query = api.useQuery('get', '/api/v1/evidence', { params: { query: page } });
  const ms = (value: number | null) => (value === null ? '–' : `${count(Math.round(value))} ms`);
  return (
    <Section title="Evidence">
      <Loaded query={query}>
        {({ data, next_page_token }) => (
          <>
            <Table<Evidence>
              caption="Evidence"
              rows={data}
              rowKey={({ workload_type_key, model }) => workload_type_key + model}
              columns={[
                {
                  title: 'Workload type',
                  value: ({ workload_type }) => <Name text={workload_type || 'none'} />,
                },
                { title: 'Model', value: ({ model }) => <Name text={model} />, wrap: true },
                { title: 'Requests', value: ({ requests }) => count(Math.round(requests)), end: true },
                {
                  title: 'Success',
                  value: ({ success_rate: rate }) => (rate === null ? '–' : percent(rate, 1)),
                  end: true,
                },
                { title: 'First token', value: (one) => ms(one.mean_time_to_first_token_ms), end: true },
                { title: 'Latency', value: (one) => ms(one.mean_latency_ms), end: true },
                { title: 'Mean cost', value: (one) => <Money micro={one.mean_cost_micro_usd} />, end: true },
                { title: 'Score', value: ({ mean_score: score }) => score?.toFixed(2) ?? '–', end: true },
              ]}
              empty={<p>Nothing was learnt yet.</p>}
            />
            <Pager next={next_page_token} />
          </>
        )}
      </Loaded>
    </Section>
  );
}
