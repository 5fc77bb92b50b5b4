import type { components } from '@weighbridge/client';
import { useState } from 'react';
import { words } from '../api/choices.ts';
import { client } from '../api/client.ts';
import { Badge, Code, Name } from '../ui/bits.tsx';
import { enteredValues, type FieldSpec } from '../ui/fieldSpecs.ts';
import { Form, SpecFields, type Texts } from '../ui/fields.tsx';
import { Section } from '../ui/Page.tsx';
import { Table } from '../ui/Table.tsx';
import { usd } from './prices.ts';

type Explanation = components['schemas']['Explanation'];
type Excluded = components['schemas']['ExcludedModel'];
type Choice = Explanation['models'][number];

const ROUTES = words(
  'chat_completions',
  'responses',
  'messages',
  'embeddings',
  'generate_content',
  'embed_content',
  'completions',
);

/** Whether a request would be served, by which model and account, and why no other. Nothing is sent. */
export function WhatIf({
  keyId,
  model = '',
  onClose,
}: {
  keyId?: string;
  model?: string;
  onClose: () => void;
}) {
  const [answer, setAnswer] = useState<Explanation>();
  const specs: readonly FieldSpec[] = [
    { name: 'model', label: 'Model', kind: 'text', required: true, initial: model },
    { name: 'route', label: 'Operation', kind: 'choice', choices: ROUTES, initial: 'chat_completions' },
    ...(keyId === undefined
      ? [{ name: 'key_id', label: 'Key', kind: 'text', hint: 'Its id. Empty: no policy applies.' } as const]
      : []),
    { name: 'workload_type', label: 'Workload type', kind: 'text' },
  ];
  const ask = async (texts: Texts) => {
    setAnswer(undefined);
    const { data } = await client.POST('/api/v1/explain', {
      body: { ...enteredValues(specs, texts), ...(keyId !== undefined && { key_id: keyId }) } as never,
    });
    setAnswer(data);
  };
  return (
    <>
      <Form submit="Ask" onSubmit={ask} onCancel={onClose} cancel="Close">
        <SpecFields specs={specs} />
      </Form>
      {answer && <Answer of={answer} />}
    </>
  );
}

function Answer({
  of: { refusal, chosen, models, excluded, not_known, resolved_name, model },
}: {
  of: Explanation;
}) {
  return (
    <div role="status">
      <p>
        {refusal ? (
          <>
            <Badge tone="bad">refused</Badge> with {refusal.status} <Code text={refusal.code} />.
          </>
        ) : (
          <>
            <Badge tone="good">allowed</Badge> <Name text={chosen?.model ?? model} /> is asked first.
          </>
        )}{' '}
        {resolved_name.name !== model && (
          <>
            <Code text={resolved_name.name} /> stands for <Code text={model} />.
          </>
        )}
      </p>
      <Table<Choice>
        caption="Tried in this order"
        rows={models}
        rowKey={({ model: one }) => one}
        columns={[
          { title: 'Model', value: ({ model: one }) => <Name text={one} />, wrap: true },
          { title: 'Why', value: ({ why }) => <Name text={why} />, wrap: true },
          {
            title: 'Connectors',
            value: ({ connectors }) => (
              <Name
                text={connectors
                  .map(
                    ({ name, input_price, output_price }) =>
                      `${name} (${usd(input_price)} in, ${usd(output_price)} out)`,
                  )
                  .join(', ')}
              />
            ),
            wrap: true,
          },
        ]}
        empty={<p>No model is left.</p>}
      />
      {excluded.length > 0 && (
        <Section title="Not used">
          <Table<Excluded>
            caption="Not used"
            rows={excluded}
            rowKey={({ model: one, connector_id, why }) => `${one} ${connector_id} ${why}`}
            columns={[
              { title: 'Model', value: ({ model: one }) => <Name text={one} />, wrap: true },
              { title: 'Because', value: ({ why }) => <Name text={why} />, wrap: true },
            ]}
            empty={null}
          />
        </Section>
      )}
      {not_known.length > 0 && <p>Not known here: {not_known.join('; ')}.</p>}
    </div>
  );
}
