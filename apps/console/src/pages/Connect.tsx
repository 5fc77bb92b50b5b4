import { useState } from 'react';
import { issueKey } from '../api/issueKey.ts';
import { isOperator, useWhoami } from '../app/session.ts';
import { CopyButton } from '../ui/bits.tsx';
import { Form, TextField, type Texts } from '../ui/fields.tsx';
import { Page, Section } from '../ui/Page.tsx';
import styles from '../ui/page.module.css';
import { clientSnippets } from './snippets.ts';

const WANTED = ['inference', 'models:read', 'usage:read'] as const;

/** Settings for common clients. In a deployment with its own address for inference, that address takes the place of this one. */
export function Connect() {
  const whoami = useWhoami();
  const { scopes } = whoami;
  const [key, setKey] = useState<string>();
  const issue = async ({ name = '', limit_micro_usd: usd }: Texts) => {
    const body = { name, scopes: WANTED.filter((scope) => scopes.includes(scope)) };
    const budget = { limit_micro_usd: Math.round(Number(usd) * 1_000_000), window: 'month' } as const;
    setKey(await issueKey(body, usd ? budget : undefined));
  };
  return (
    <Page title="Connect a client" lead="Settings for common clients, with the address of this service.">
      {key !== undefined && (
        <p role="status">The key below is shown once. Whoever has it can spend for you.</p>
      )}
      {key === undefined && scopes.includes('keys:write') && (
        <div className={styles.narrow}>
          <Form submit="Issue a key for these settings" onSubmit={issue}>
            <TextField
              label="What will use it"
              name="name"
              required
              maxLength={200}
              placeholder="my laptop"
            />
            {isOperator(whoami) && (
              <TextField
                label="Budget in USD a month"
                name="limit_micro_usd"
                type="number"
                min={0}
                step={0.000_001}
                hint="For this key alone. Empty: your policy’s."
              />
            )}
          </Form>
        </div>
      )}
      {clientSnippets(window.location.origin, key ?? '<KEY>').map(([title, text]) => (
        <Section key={title} title={title} actions={<CopyButton text={text} />}>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must take the focus. */}
          <pre className={styles.code} tabIndex={0}>
            {text}
          </pre>
        </Section>
      ))}
    </Page>
  );
}
