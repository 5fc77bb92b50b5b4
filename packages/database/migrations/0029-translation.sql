-- What becomes of requests whose translation for a vendor with another dialect would change or drop something.
ALTER TABLE policies ADD COLUMN translation text NOT NULL DEFAULT 'lenient' CHECK (translation IN ('lenient', 'strict'));
ALTER TABLE profiles ADD COLUMN translation text NOT NULL DEFAULT 'lenient' CHECK (translation IN ('lenient', 'strict'));
