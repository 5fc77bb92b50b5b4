import { useParams } from '@tanstack/react-router';
import { api } from '../api/client.ts';
import { Badge, Code, Money, Name, Time } from '../ui/bits.tsx';
import { Loaded, Page, Pairs, Section } from '../ui/Page.tsx';
import { Table } from '../ui/Table.tsx';
import { count } from '../ui/text.ts';
import { Outcome, type RequestRecord } from './Requests.tsx';

type Attempt = RequestRecord['attempts'][number];

/** What a request was, what it cost and why. */
export function OneRequest() {
  const { requestId = '' } = useParams({ strict: false }) as { requestId?: string };
  const query = api.useQuery('get', '/api/v1/requests/{request_id}', {
    params: { path: { request_id: requestId } },
  });
  return (
    <Page title={`Request ${requestId}`}>
      <Loaded query={query}>{(row) => <Details row={row} />}</Loaded>
    </Page>
  );
}

function Details({ row }: { row: RequestRecord }) {
  const { refusal, policies, attribution, corrections, feedback } = row;
  return (
    <>
      <Pairs
        of={[
          ['Outcome', <Outcome key="outcome" row={row} />],
          ...(refusal ? [['Refused because', <Name key="why" text={refusal.message} />] as const] : []),
          ['At', <Time key="at" at={row.admitted_at} />],
          ['Model asked for', <Name key="model" text={row.model_requested} />],
          ['Key', <Name key="key" text={row.key_name ?? row.key_id} />],
          ['Principal', <Name key="principal" text={row.principal_id} />],
          ['Team', row.team_name === null ? 'none' : <Name key="team" text={row.team_name} />],
          ['Policies', policies.map(({ name, policy_id }) => name ?? policy_id).join(', ') || 'none'],
          ['Cost', <Money key="cost" micro={row.cost_micro_usd} />],
          ...Object.entries(attribution).map(
            ([name, value]) => [name.replaceAll('_', ' '), <Code key={name} text={text(value)} />] as const,
          ),
          ...(feedback ? [['Feedback', <Code key="feedback" text={text(feedback)} />] as const] : []),
        ]}
      />
      <Section title="Attempts">
        <Table<Attempt>
          caption="Attempts"
          rows={row.attempts}
          rowKey={({ event_id }) => event_id}
          columns={[
            { title: 'Model', value: ({ model }) => <Name text={model} />, wrap: true },
            {
              title: 'Connector',
              value: ({ connector_name, connector_id }) => <Name text={connector_name ?? connector_id} />,
            },
            { title: 'Outcome', value: ({ outcome, http_status }) => `${outcome} ${http_status || ''}` },
            {
              title: 'First byte',
              value: ({ first_byte_ms }) =>
                first_byte_ms === null ? '–' : `${Math.round(first_byte_ms)} ms`,
              end: true,
            },
            { title: 'Took', value: ({ duration_ms }) => `${Math.round(duration_ms)} ms`, end: true },
            { title: 'Input', value: ({ input_tokens }) => count(input_tokens), end: true },
            { title: 'From cache', value: ({ cache_read_tokens }) => count(cache_read_tokens), end: true },
            { title: 'To cache', value: ({ cache_write_tokens }) => count(cache_write_tokens), end: true },
            { title: 'Output', value: ({ output_tokens }) => count(output_tokens), end: true },
            {
              title: 'Price',
              value: ({ price_source, price_version }) => `${price_source} v${price_version}`,
            },
            { title: 'Cost', value: ({ cost_micro_usd }) => <Money micro={cost_micro_usd} />, end: true },
            { title: 'Marks', value: (one) => <Marks attempt={one} /> },
          ]}
          empty={<p>No attempt was made: nothing was sent to a vendor.</p>}
        />
      </Section>
      {corrections.length > 0 && (
        <Section title="Corrections">
          <pre>{JSON.stringify(corrections, null, 2)}</pre>
        </Section>
      )}
    </>
  );
}

function Marks({ attempt }: { attempt: Attempt }) {
  const { estimated, cache_hit, streamed, price_incomplete, dropped } = attempt;
  return (
    <>
      {estimated && <Badge tone="warn">estimated: the vendor reported no usage</Badge>}{' '}
      {price_incomplete && <Badge tone="warn">price incomplete</Badge>}{' '}
      {cache_hit && <Badge>from the cache</Badge>} {streamed && <Badge>streamed</Badge>}{' '}
      {dropped.length > 0 && <Badge>dropped {dropped.join(', ')}</Badge>}
    </>
  );
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}
