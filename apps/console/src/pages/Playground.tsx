import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { ApiError } from '@weighbridge/client';
import { useEffect, useId, useRef, useState } from 'react';
import { api, client } from '../api/client.ts';
import { type Answer, ask } from '../api/playground.ts';
import { Actions, Button, Code, CopyButton, Money, Name } from '../ui/bits.tsx';
import { AreaField, Form, TextField, type Texts } from '../ui/fields.tsx';
import { Note, Page, Pairs, Problem, Section } from '../ui/Page.tsx';
import styles from '../ui/page.module.css';
import { count, visible } from '../ui/text.ts';
import { sdkCode } from './snippets.ts';

const POLL_MS = 500;
const MAX_POLLS = 60;

/** Asks any model that one may use, by a key that ends soon. */
export function Playground() {
  const models = api.useQuery('get', '/api/v1/models', { params: { query: { page_size: 500 } } });
  const [asked, setAsked] = useState<Texts>({});
  const [answer, setAnswer] = useState<Answer>();
  const [isRunning, setRunning] = useState(false);
  const controller = useRef<AbortController>(undefined);
  const list = useId();
  useEffect(() => () => controller.current?.abort(), []);
  const send = async (texts: Texts) => {
    const { model = '', prompt = '', system = '' } = texts;
    controller.current = new AbortController();
    setAsked(texts);
    setAnswer(undefined);
    setRunning(true);
    try {
      await ask({ model, prompt, system }, setAnswer, controller.current.signal);
    } catch (error) {
      if (controller.current.signal.aborted) return;
      if (error instanceof ApiError) throw error;
      throw new ApiError({
        status: 0,
        code: 'unreachable',
        message: 'Inference is unreachable at this address. It may have another one in this deployment.',
        cause: error,
      });
    } finally {
      setRunning(false);
    }
  };
  return (
    <Page
      title="Playground"
      lead="These are your own requests: they cost money and count against your budget."
    >
      {models.error != null && <Problem error={models.error} onRetry={() => void models.refetch()} />}
      {models.data?.data.length === 0 && (
        <Note>
          <p>No model can be asked. An operator adds a connector first.</p>
        </Note>
      )}
      <div className={styles.narrow}>
        <Form submit="Ask" onSubmit={send}>
          <TextField
            label="Model"
            name="model"
            required
            list={list}
            autoComplete="off"
            defaultValue={models.data?.data[0]?.model}
            key={models.data?.data[0]?.model}
          />
          <datalist id={list}>
            {models.data?.data.map(({ model }) => (
              <option key={model} value={model} />
            ))}
          </datalist>
          <TextField label="System" name="system" autoComplete="off" />
          <AreaField label="Prompt" name="prompt" required initial="What does a weighbridge weigh?" />
        </Form>
      </div>
      {isRunning && (
        <p role="status">
          The model is answering … <Button onClick={() => controller.current?.abort()}>Stop</Button>
        </p>
      )}
      {answer && (
        <Section title="Answer">
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must take the focus. */}
          <pre className={styles.answer} tabIndex={0} data-done={!isRunning || undefined}>
            {answer.text}
          </pre>
          <Facts answer={answer} isDone={!isRunning} />
          <Actions>
            <CopyButton label="Copy as Python" text={sdkCode('python', asked)} />
            <CopyButton label="Copy as TypeScript" text={sdkCode('typescript', asked)} />
          </Actions>
        </Section>
      )}
    </Page>
  );
}

/** What the answer took and cost. The ledger knows the cost soon after the end. */
function Facts({ answer, isDone }: { answer: Answer; isDone: boolean }) {
  const { requestId, tokens, firstTokenMs, totalMs, model } = answer;
  const polls = useRef(0);
  const record = useQuery({
    queryKey: ['playground', requestId],
    enabled: isDone && requestId !== '',
    queryFn: async () => {
      polls.current += 1;
      const { data } = await client.GET('/api/v1/requests/{request_id}', {
        params: { path: { request_id: requestId } },
      });
      return data;
    },
    retry: (failures, error) => error instanceof ApiError && error.status === 404 && failures < MAX_POLLS,
    retryDelay: POLL_MS,
    staleTime: Number.POSITIVE_INFINITY,
  });
  const ms = (value: number | undefined) => (value === undefined ? '–' : `${count(Math.round(value))} ms`);
  const attempts = record.data?.attempts ?? [];
  return (
    <Pairs
      of={[
        ['Model', <Name key="model" text={model} />],
        [
          'Route',
          attempts.length > 0
            ? visible(attempts.map((one) => `${one.connector_name}: ${one.outcome}`).join(', then '))
            : '–',
        ],
        ['First token', ms(firstTokenMs)],
        ['Took', ms(totalMs)],
        ['Tokens', tokens ? `${count(tokens.input)} in, ${count(tokens.output)} out` : '–'],
        [
          'Cost',
          record.data ? (
            <Money key="cost" micro={record.data.cost_micro_usd} />
          ) : record.error ? (
            'not in the ledger yet'
          ) : (
            '…'
          ),
        ],
        [
          'Request',
          <Link key="request" to={`/requests/${encodeURIComponent(requestId)}` as string}>
            <Code text={requestId} />
          </Link>,
        ],
      ]}
    />
  );
}
