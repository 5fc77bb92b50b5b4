import { useState } from 'react';
import { client } from '../api/client.ts';
import { useWhoami } from '../app/session.ts';
import { CopyButton } from '../ui/bits.tsx';
import { Form, TextField, type Texts } from '../ui/fields.tsx';
import { Page, Section } from '../ui/Page.tsx';
import styles from '../ui/page.module.css';
import { clientSnippets } from './snippets.ts';

const WANTED = ['inference', 'models:read', 'usage:read'] as const;

/** Settings for common clients. In a deployment with its own address for inference, that address takes the place of this one. */
export function Connect() {
  const { scopes } = useWhoami();
  const [key, setKey] = useState<string>();
  const issue = async ({ name = '' }: Texts) => {
    const { data } = await client.POST('/api/v1/keys', {
      body: { name, scopes: WANTED.filter((scope) => scopes.includes(scope)) },
    });
    setKey(data?.key);
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
