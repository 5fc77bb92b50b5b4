import { type FormEvent, type InputHTMLAttributes, type ReactNode, useState } from 'react';
import { Button } from './bits.tsx';
import styles from './controls.module.css';
import { Problem } from './Page.tsx';
import pageStyles from './page.module.css';
import { type Search, useSearch } from './search.ts';

type InputProps = Omit<InputHTMLAttributes<HTMLInputElement>, 'className'>;

export function TextField({ label, hint, ...input }: InputProps & { label: string; hint?: string }) {
  return (
    <label className={styles.field}>
      <span>{label}</span>
      <input {...input} className={styles.input} />
      {hint !== undefined && <small>{hint}</small>}
    </label>
  );
}

export function SelectField({
  label,
  name,
  options,
  value,
  onChange,
}: {
  label: string;
  name: string;
  options: readonly (readonly [value: string, text: string])[];
  value?: string;
  onChange?: (value: string) => void;
}) {
  const change = onChange && {
    value,
    onChange: (event: { target: { value: string } }) => onChange(event.target.value),
  };
  return (
    <label className={styles.field}>
      <span>{label}</span>
      <select name={name} className={styles.input} {...change}>
        {options.map(([one, text]) => (
          <option key={one} value={one}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

/** A form that says what failed, and can't be sent twice. */
export function Form({
  submit,
  onSubmit,
  onCancel,
  danger = false,
  children,
}: {
  submit: string;
  onSubmit: (values: Readonly<Record<string, string>>) => Promise<void>;
  onCancel?: () => void;
  danger?: boolean;
  children?: ReactNode;
}) {
  const [error, setError] = useState<unknown>();
  const [isSending, setSending] = useState(false);
  const send = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const values = Object.fromEntries(new FormData(event.currentTarget)) as Record<string, string>;
    setSending(true);
    setError(undefined);
    try {
      await onSubmit(values);
    } catch (failure) {
      setError(failure);
    } finally {
      setSending(false);
    }
  };
  return (
    <form className={styles.form} onSubmit={(event) => void send(event)}>
      {children}
      {error !== undefined && <Problem error={error} />}
      <div className={styles.actions}>
        {onCancel && <Button onClick={onCancel}>Cancel</Button>}
        <Button type="submit" kind={danger ? 'danger' : 'primary'} disabled={isSending}>
          {submit}
        </Button>
      </div>
    </form>
  );
}

export interface Filter {
  readonly name: string;
  readonly label: string;
  /** Undefined: any text. */
  readonly options?: readonly (readonly [value: string, text: string])[];
}

/** The filters of a list, kept in the address. */
export function Filters({ filters }: { filters: readonly Filter[] }) {
  const [search, setSearch] = useSearch();
  const apply = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    setSearch(Object.fromEntries(new FormData(event.currentTarget)) as Search);
  };
  return (
    <form className={pageStyles.filters} aria-label="Filters" onSubmit={apply}>
      {filters.map(({ name, label, options }) =>
        options ? (
          <SelectField
            key={name}
            name={name}
            label={label}
            options={[['', 'Any'], ...options]}
            value={search[name] ?? ''}
            onChange={(value) => setSearch({ [name]: value })}
          />
        ) : (
          <TextField key={`${name} ${search[name]}`} name={name} label={label} defaultValue={search[name]} />
        ),
      )}
      {filters.some(({ options }) => !options) && <Button type="submit">Filter</Button>}
    </form>
  );
}
