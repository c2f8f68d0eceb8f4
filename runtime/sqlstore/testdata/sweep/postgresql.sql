CREATE PROCEDURE idempotency_sweep() LANGUAGE plpgsql AS $$
DECLARE
    deleted bigint;
BEGIN
    LOOP
        DELETE FROM idempotency_records WHERE id = ANY (ARRAY(SELECT id FROM idempotency_records
            WHERE expires_at <= now() ORDER BY expires_at LIMIT 1000 FOR UPDATE SKIP LOCKED));
        GET DIAGNOSTICS deleted = ROW_COUNT;
        COMMIT;
        EXIT WHEN deleted < 1000;
        PERFORM pg_sleep(0.02);
    END LOOP;
END $$;

SELECT cron.schedule('idempotency-sweep', '17 * * * *', 'CALL idempotency_sweep()');
