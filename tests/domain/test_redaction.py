"""Redact secrets in text."""

from __future__ import annotations

import pytest

from shopfloor.domain.redaction import redact

TOKEN = "sfa_abcdefghjkmn_Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmE"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2lnbmF0dXJl"
PEM = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        (TOKEN, "***"),
        (f"use {TOKEN}, please", "use ***, please"),
        (f"x{TOKEN}", "x***"),
        (f"line\n{TOKEN}\nline", "line\n***\nline"),
        (JWT, "***"),
        (f"Cookie a={JWT}; b", "Cookie a=***; b"),
        (PEM, "***"),
        (PEM[:40], "***"),
        ("Authorization: Bearer abcdefghijklmnop", "Authorization: ***"),
        ("sk-proj-0123456789abcdef", "***"),
        ("\tsk-proj-0123456789abcdef", "\t***"),
        ("ghp_0123456789abcdefghij", "***"),
        ("github_pat_0123456789abcdefghij", "***"),
        ("xoxb-0123456789", "***"),
        ("AKIAIOSFODNN7EXAMPLE", "***"),
        ("AIzaSyA0123456789012345678901234567890-", "***"),
        ("postgres://user:hunter2@host/db", "postgres://***@host/db"),
        ('{"password": "hunter2", "user": "guest"}', '{"password":"***","user":"guest"}'),
        ('[{"apiKey": "x"}]', '[{"apiKey":"***"}]'),
        ("glpat-Zm9vYmFyYmF6cXV4Zm9v", "***"),
        ("ASIAIOSFODNN7EXAMPLE", "***"),
        ("ya29.a0AfH6SMBx_Zm9vYmFyYmF6cXV4", "***"),
        ("npm_Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4", "***"),
        ("pypi-AgEIcHlwaS5vcmcCJDhkMTk0", "***"),
        ("hf_Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6", "***"),
        ("SG.Zm9vYmFyYmF6cXV4Zm9v.Zm9vYmFyYmF6cXV4Zm9vYmFy", "***"),
        ("sk_live_Zm9vYmFyYmF6cXV4", "***"),
        ("whsec_Zm9vYmFyYmF6cXV4Zm9v", "***"),
        ("lin_api_Zm9vYmFyYmF6cXV4Zm9v", "***"),
        ("dop_v1_0123456789abcdef0123456789abcdef", "***"),
        ("https://hooks.slack.com/services/T00000000/B00000000/Zm9vYmFy", "https://hooks.slack.com/services/***"),
        ("-----BEGIN PGP PRIVATE KEY BLOCK-----\nabc", "***"),
        ("curl -u x -H 'Authorization: Basic dXNlcjpwYXNzd29yZDEyMw=='", "curl -u x -H 'Authorization: ***'"),
        ("log in with password=hunter2secret, please", "log in with password=***, please"),
        ("PASSWORD: hunter2secret", "PASSWORD: ***"),
        ("DB_PASSWORD='correcthorse'", "DB_PASSWORD='***'"),
        ("api_key = 'abcd1234efgh'", "api_key = '***'"),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG", "AWS_SECRET_ACCESS_KEY=***"),
        ("https://x.example/?access_token=abcdef&page=2", "https://x.example/?access_token=***&page=2"),
        ("https://x.example/blob?sv=1&sig=abcdef", "https://x.example/blob?sv=1&sig=***"),
        ("Cookie: session=abc; theme=dark\nHost: x", "Cookie: ***\nHost: x"),
        ('{"pwd": "x", "accessKey": "y", "pin": 1234}', '{"pwd":"***","accessKey":"***","pin":"***"}'),
    ],
)
def test_secrets_are_redacted(text, redacted):
    assert redact(text) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Use JWT tokens instead of session cookies",
        "task-0123456789abcdefghij",
        "https://example.com:8080/path@v2",
        "a secret plan, and the key to it",
        '{"tokenizer": null,  "secret": true}',
        '{ "key":   "value" }',
        "{not json, but a token}",
        "eyJ.eyJ.eyJ",
        "token: see the next section",
        "The password: anything the user chose",
        "npm_config_registry and secret_management_service_name",
        "key-value-store-with-a-very-long-name",
        "Basic functionality and internationalization",
        "opinion, mapping, assigned, session, code: 42",
        "max_tokens=16",
    ],
)
def test_other_text_is_unchanged(text):
    assert redact(text) == text
