import { useParams } from '@tanstack/react-router';
import type { components } from '@weighbridge/client';
import { useState } from 'react';
import { api, client } from '../api/client.ts';
import { giveFeedback } from '../api/feedback.ts';
import { isOperator, useWhoami } from '../app/session.ts';
import { Actions, Badge, Button, Code, CopyButton, InputTokens, Money, Name, Time } from '../ui/bits.tsx';
import { SelectField, TextField } from '../ui/fields.tsx';
import { Loaded, Page, Pairs, Section } from '../ui/Page.tsx';
import { ConfirmModal, useDialog } from '../ui/resources.tsx';
import { Table } from '../ui/Table.tsx';
import { count, milliseconds, nanoMoney, visible } from '../ui/text.ts';
import { usd } from './prices.ts';
import { Outcome, type RequestRecord } from './Requests.tsx';

type RequestDetail = components['schemas']['RequestDetail'];
type Attempt = RequestDetail['attempts'][number];

/** What a request was, what it cost and why. */
export function OneRequest() {
  const { requestId = '' } = useParams({ strict: false }) as { requestId?: string };
  const query = api.useQuery('get', '/api/v1/requests/{request_id}', {
    params: { path: { request_id: requestId } },
  });
  const { dialog, open, close } = useDialog();
  const whoami = useWhoami();
  const mayWrite = isOperator(whoami);
  const { data: row } = query;
  return (
    <Page
      title={`Request ${requestId}`}
      actions={
        row && (
          <Actions>
            <CopyButton label="Copy as curl" text={curlOf(row)} />
            {row.principal_id === whoami.principal_id && row.attempts.length > 0 && (
              <Button onClick={() => open(<Score row={row} onClose={close} />)}>Give feedback</Button>
            )}
            {mayWrite && row.attempts.length > 0 && (
              <Button onClick={() => open(<Correct row={row} onClose={close} />)}>Correct the cost</Button>
            )}
          </Actions>
        )
      }
    >
      <Loaded query={query}>{(loaded) => <Details row={loaded} />}</Loaded>
      {dialog}
    </Page>
  );
}

function Details({ row }: { row: RequestDetail }) {
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
          ...(feedback ? [['Feedback', <Given key="feedback" feedback={feedback} />] as const] : []),
        ]}
      />
      {Object.keys(attribution).length > 0 && (
        <Section title="Attribution">
          <Pairs
            of={Object.entries(attribution).map(
              ([name, value]) => [labelOf(name), <Code key={name} text={text(value)} />] as const,
            )}
          />
        </Section>
      )}
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
              title: 'Took',
              value: ({ first_byte_ms: first, duration_ms }) => (
                <>
                  {milliseconds(duration_ms)}
                  {first !== null && <small>first byte {milliseconds(first)}</small>}
                </>
              ),
              end: true,
            },
            { title: 'Input', value: (one) => <InputTokens of={one} />, end: true },
            { title: 'Output', value: ({ output_tokens }) => count(output_tokens), end: true },
            {
              title: 'Price',
              value: ({ price_source, price_version }) => `${price_source} v${price_version}`,
              spare: true,
            },
            { title: 'Cost', value: ({ cost_micro_usd }) => <Money micro={cost_micro_usd} />, end: true },
            { title: 'Marks', value: (one) => <Marks attempt={one} />, wrap: true },
          ]}
          empty={<p>No attempt was made: nothing was sent to a vendor.</p>}
        />
      </Section>
      {row.attempts.length > 0 && <CostByClass row={row} />}
      {corrections.length > 0 && (
        <Section title="Corrections">
          <Table<RequestRecord['corrections'][number]>
            caption="Corrections"
            rows={corrections}
            rowKey={({ event_id }) => event_id}
            columns={[
              { title: 'At', value: ({ recorded_at }) => <Time at={recorded_at} /> },
              { title: 'Amount', value: (one) => <Money micro={one.amount_micro_usd} />, end: true },
              { title: 'Reason', value: ({ reason }) => <Name text={reason} />, wrap: true },
            ]}
            empty={null}
          />
        </Section>
      )}
    </>
  );
}

type Part = components['schemas']['ClassCost'] & { readonly attempt: Attempt };

/** What each class of tokens cost, at the price that was charged. */
function CostByClass({ row: { attempts, costs } }: { row: RequestDetail }) {
  const parts = attempts.flatMap((attempt): Part[] => {
    const found = costs.find(({ event_id }) => event_id === attempt.event_id)?.by_class ?? [];
    return found.map((part) => ({ ...part, attempt }));
  });
  const unknown = costs.filter(({ by_class }) => by_class === null).length;
  return (
    <Section title="Cost by class">
      <Table<Part>
        caption="Cost by class"
        rows={parts}
        rowKey={(part) => `${part.attempt.event_id} ${part.class}`}
        columns={[
          ...(attempts.length > 1
            ? [
                {
                  title: 'Attempt',
                  value: ({ attempt }: Part) => `${attempts.indexOf(attempt) + 1}: ${visible(attempt.model)}`,
                  wrap: true,
                },
              ]
            : []),
          { title: 'Class', value: (part) => <Name text={classLabel(part.class)} /> },
          { title: 'Quantity', value: ({ quantity }) => count(quantity), end: true },
          {
            title: 'Price',
            value: (part) => `${usd(part.price)} ${isTool(part.class) ? 'a use' : 'a million'}`,
            end: true,
          },
          { title: 'Cost', value: (part) => nanoMoney(part.cost_nano_usd), end: true },
        ]}
        empty={<p>{unknown > 0 ? NOT_SPLIT : 'No tokens were charged.'}</p>}
      />
      {parts.length > 0 && unknown > 0 && <p>{NOT_SPLIT}</p>}
    </Section>
  );
}

const NOT_SPLIT =
  'The cost of an attempt can’t be split: its price lacked something that was used, another model worked on the answer, or the price is not on record.';

const isTool = (name: string) => name.startsWith('tool:');

const CLASSES: Readonly<Record<string, string>> = {
  input: 'Input',
  output: 'Output',
  cache_read: 'Read from a cache',
  cache_write: 'Written to a cache',
  cache_write_1h: 'Written to a cache for an hour',
  input_audio: 'Audio in',
  input_image: 'Images in',
  cache_read_audio: 'Audio from a cache',
  output_audio: 'Audio out',
  output_image: 'Images out',
};

function classLabel(name: string): string {
  return isTool(name) ? `Tool ${name.slice('tool:'.length)}` : (CLASSES[name] ?? name);
}

interface RequestDialog {
  readonly row: RequestRecord;
  readonly onClose: () => void;
}

const SCORES = [
  ['1', '1: right'],
  ['0.75', '0.75'],
  ['0.5', '0.5'],
  ['0.25', '0.25'],
  ['0', '0: wrong'],
] as const;

function Score({ row: { request_id, feedback }, onClose }: RequestDialog) {
  return (
    <ConfirmModal
      title="Give feedback"
      submit="Send"
      id={request_id}
      act={(_header, { score = '', comment = '' }) =>
        giveFeedback({ request_id, score: Number(score), ...(comment !== '' && { comment }) })
      }
      onClose={onClose}
    >
      <p>
        Profiles that learn send more to models with high scores. A request has one score
        {feedback ? ': this one replaces yours.' : '.'}
      </p>
      <SelectField label="Score" name="score" options={SCORES} />
      <TextField label="Comment" name="comment" maxLength={1_000} hint="Only operators read it." />
    </ConfirmModal>
  );
}

function Correct({ row: { request_id, attempts }, onClose }: RequestDialog) {
  // Sent twice, the same correction counts once.
  const [idempotencyKey] = useState(newId);
  return (
    <ConfirmModal
      title="Correct the cost"
      submit="Correct"
      id={request_id}
      act={(_header, { amount = '', reason = '', event_id = '' }) =>
        client.POST('/api/v1/requests/{request_id}/corrections', {
          params: { path: { request_id }, header: { 'idempotency-key': idempotencyKey } },
          body: { amount_micro_usd: Math.round(Number(amount) * 1_000_000), reason, event_id },
        })
      }
      onClose={onClose}
    >
      <p>The ledger adds a row. The attempt stays as it was recorded.</p>
      <SelectField
        label="Attempt"
        name="event_id"
        options={attempts.map(({ event_id, model, connector_name }) => [
          event_id,
          `${model} by ${connector_name}`,
        ])}
      />
      <TextField
        label="Amount in USD"
        name="amount"
        type="number"
        step={0.000_001}
        required
        hint="Added to the cost; negative reduces it."
      />
      <TextField label="Why" name="reason" required />
    </ConfirmModal>
  );
}

/** A browser makes UUIDs only where the address is https. */
function newId(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16)).join('-');
}

/** The operation and the model; what was asked is never stored. */
function curlOf({ model_requested }: RequestRecord): string {
  const body = JSON.stringify({
    model: model_requested,
    messages: [{ role: 'user', content: 'Hello' }],
  }).replaceAll("'", "'\\''");
  return [
    `curl ${window.location.origin}/v1/chat/completions`,
    '-H "Authorization: Bearer $KEY"',
    '-H "Content-Type: application/json"',
    `-d '${body}'`,
  ].join(' \\\n  ');
}

function Marks({ attempt }: { attempt: Attempt }) {
  const {
    estimated,
    cache_hit,
    streamed,
    price_incomplete,
    dropped,
    skipped,
    service_tier,
    speed,
    geography,
  } = attempt;
  const conditions = [service_tier, speed, geography].filter((one) => one !== null);
  return (
    <>
      {estimated && (
        <>
          <Badge tone="warn">estimated</Badge>
          <small>the vendor reported no usage</small>
        </>
      )}{' '}
      {price_incomplete && (
        <>
          <Badge tone="warn">price incomplete</Badge>
          <small>
            <Name text={`no price for ${attempt.unpriced.join(', ')}`} />
          </small>
        </>
      )}{' '}
      {cache_hit && <Badge>from the cache</Badge>} {streamed && <Badge>streamed</Badge>}{' '}
      {conditions.length > 0 && <Badge>{visible(conditions.join(', '))}</Badge>}
      {dropped.length > 0 && (
        <small>
          <Name text={`not sent as it was: ${dropped.join(', ')}`} />
        </small>
      )}
      {skipped.length > 0 && (
        <small>
          <Name text={`passed over at its limit: ${skipped.join(', ')}`} />
        </small>
      )}
    </>
  );
}

/** Such as `Session id` for `session_id`. */
function labelOf(name: string): string {
  return `${name.charAt(0).toUpperCase()}${name.slice(1).replaceAll('_', ' ')}`;
}

/** Labels as a request writes them. */
function text(value: unknown): string {
  if (typeof value === 'string') return value;
  return Object.entries(value as object)
    .map(([name, of]) => `${name}=${of}`)
    .join(', ');
}

function Given({
  feedback: { score, comment, given_at },
}: {
  feedback: NonNullable<RequestDetail['feedback']>;
}) {
  return (
    <>
      {score} of 1, <Time at={given_at} />
      {comment !== null && (
        <>
          : <Name text={comment} />
        </>
      )}
    </>
  );
}
